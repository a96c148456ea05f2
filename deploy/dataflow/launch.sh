#!/usr/bin/env bash
# Run a recipe on Dataflow with the code of this checkout:
#
#   export TRAJMILL_DATAFLOW_IMAGE=registry.example/trajmill:1 TRAJMILL_DATAFLOW_TEMP=gs://bucket/tmp
#   deploy/dataflow/launch.sh android --raw gs://bucket/raw --out gs://bucket/out --workers 32 --max-hours 4 \
#       --project=some-project --region=europe-west4
#
# The words are those of `trajmill run`. It plans and draws on this machine and submits one job a stage, so the machine
# stays up until the last one is done; run the same command again after an interruption.
set -euo pipefail

: "${TRAJMILL_DATAFLOW_IMAGE:?is not set; wanted the name of the image, such as registry.example/trajmill:1}"
root=$(cd "$(dirname "$0")/../.." && pwd)
files=/opt/trajmill/files # models and templates that recipes name; they have the same path in the image
PATH="$PATH:$root/.venv/bin"
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT

(cd "$root" && hatchling build --target wheel --directory "$context")
cp "$root/deploy/dataflow/Dockerfile" "$root/requirements/dataflow.txt" "$context"
if [ -d "$files" ]; then cp -R "$files" "$context/files"; else mkdir "$context/files"; fi
docker build --tag "$TRAJMILL_DATAFLOW_IMAGE" "$context"
docker push "$TRAJMILL_DATAFLOW_IMAGE"

trajmill run "$@" --runner dataflow
