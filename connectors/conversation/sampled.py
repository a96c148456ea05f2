"""Token ids and log-probabilities that inference servers put beside the answers of their models.

vLLM puts `token_ids` into a choice, or writes `token_id:…` for each token of `logprobs`. LiteLLM moves what it does not
know to `provider_specific_fields`. SGLang has `meta_info.output_token_logprobs`, a list of (log-probability, id, text).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from trajmill.connectors.reading.fields import object_of, objects_of, plain_text
from trajmill.schemas import sampled_text

_PRINTED: Final = re.compile(r"token_id:(\d{1,10})")


def sampled_in(choice: Mapping[str, Any]) -> str | None:
    """Return what the model sampled for a choice of a chat completion, see `schemas.sampled_text`."""
    tokens = objects_of(object_of(choice.get("logprobs")).get("content"))
    logprobs = [token.get("logprob") for token in tokens]
    beside = choice.get("token_ids") or object_of(choice.get("provider_specific_fields")).get("token_ids")
    if beside:
        return sampled_text(beside, logprobs)
    entries = object_of(choice.get("meta_info")).get("output_token_logprobs")
    if isinstance(entries, list) and all(isinstance(entry, list) and len(entry) > 1 for entry in entries):
        return sampled_text([entry[1] for entry in entries], [entry[0] for entry in entries])
    printed = [_PRINTED.fullmatch(plain_text(token.get("token"))) for token in tokens]
    return sampled_text([int(match[1]) for match in printed if match], logprobs) if all(printed) else None
