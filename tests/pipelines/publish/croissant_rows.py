"""Every row of a dataset folder read by its Croissant description, with MLCommons' library: `make croissant`.

Stands alone, for an environment that has `mlcroissant` and nothing of ours. Ends with 1 where the description is not
valid, or a pool has other rows than the manifest counts.
"""

import json
import sys
from pathlib import Path

import mlcroissant

shards = Path(sys.argv[1])
counts = json.loads((shards / "manifest.json").read_text("utf-8"))["counts"]
dataset = mlcroissant.Dataset(jsonld=str(shards / "croissant.json"))
wrong = list(dataset.metadata.issues.errors)
for records in dataset.metadata.record_sets:
    rows = sum(1 for _ in dataset.records(records.uuid))
    meant = sum(count for name, count in counts.items() if name.startswith(f"samples.{records.uuid}."))
    sys.stdout.write(f"{records.uuid}: {rows} of {meant} rows\n")
    wrong += [] if rows == meant else [records.uuid]
sys.exit(bool(wrong))
