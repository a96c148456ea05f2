"""A template and a loss scale for ms-swift, by which it trains what was meant. It stands alone; `swift.yaml` names it.

The template is ChatML as Qwen 2.5 has it, but that an answer ends with `<|im_end|>`: ms-swift trains what it holds for
the end of an answer, and the newline behind it is none. The loss scale leaves out the end of the last answer where the
piece before it bears no loss.
"""

from __future__ import annotations

from typing import Any

from swift.loss_scale import LossScale, loss_scale_map
from swift.template import ContextType, register_template
from swift.template.templates.utils import ChatmlTemplateMeta


class PiecesLossScale(LossScale):
    """Trains pieces of answers whose `loss` is true, and ends of answers whose last piece is one."""

    def __call__(
        self, context_list: list[Any], context_types: list[Any], messages: list[Any], **more: Any
    ) -> tuple[list[Any], list[float]]:
        """The texts of a conversation, each with what its loss counts."""
        loss = messages[-1].get("loss")
        if not (loss[-1] if isinstance(loss, list) else loss):
            context_types = [ContextType.OTHER if one == ContextType.SUFFIX else one for one in context_types]
        return super().__call__(context_list, context_types, messages, **more)


loss_scale_map["trajmill"] = PiecesLossScale
register_template(ChatmlTemplateMeta("trajmill_chatml", suffix=["<|im_end|>"], default_system=None), exist_ok=True)
