"""Croissant metadata of a dataset folder: every file with its sha256, and the fields of each pool's rows.

URLs are relative to the file, so that it is valid wherever the folder is. Source: the Croissant format specification,
version 1.1 (MLCommons).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from trajmill.pipelines.mix.sample_columns import IMAGE, sample_schema
from trajmill.pipelines.publish.dataset import Config, Dataset
from trajmill.pipelines.publish.licences import UNKNOWN
from trajmill.schemas import ContractError
from trajmill.schemas.manifest import PROGRAM_VERSION

CROISSANT: Final = "croissant.json"
"""Name of the description in the dataset folder."""

_CONTEXT: Final[dict[str, Any]] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "arrayShape": "cr:arrayShape",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "containedIn": "cr:containedIn",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "description": {"@container": "@language"},
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isArray": "cr:isArray",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "name": {"@container": "@language"},
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
_TYPES: Final = {
    "string": "sc:Text",
    "int32": "cr:Int32",
    "int64": "cr:Int64",
    "double": "cr:Float64",
    "bool": "sc:Boolean",
}
_PARQUET: Final = "application/x-parquet"
_LINES: Final = "application/jsonlines"


def croissant(dataset: Dataset) -> bytes:
    """Format the description as JSON, with the same bytes for the same dataset."""
    recipe, configs = dataset.recipe, dataset.configs()
    images = recipe.mix.images is not None
    values = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": recipe.name,
        "description": f"{recipe.card.pretty_name}: transitions (observation, action, next observation) of interaction "
        "trajectories, for training language world models. Its card, README.md, tells what was kept and why.",
        "license": sorted(_address(licence) for licence in dataset.licences) or [UNKNOWN],
        "inLanguage": [language.strip() for language in recipe.card.language.split(",")],
        "keywords": list(recipe.card.tags),
        "version": f"0.0.{dataset.generations}+{dataset.digest[:16]}",
        "isLiveDataset": False,
        "rai:dataCollection": f"Logs of agents and environments, as they were recorded ({recipe.source}).",
        "rai:dataPreprocessing": f"trajmill {PROGRAM_VERSION}, recipe {recipe.name} ({recipe.digest()[:16]}).",
        "rai:personalSensitiveInformation": "Secrets and personal data that their form or place tells were replaced "
        f"by placeholders; names of persons in prose are not found.{' No picture is scrubbed.' if images else ''}",
        "distribution": [*_files(dataset), *map(_file_set, configs)],
        "recordSet": [_record_set(config, images=images) for config in configs],
    }
    return json.dumps(values, indent=1, ensure_ascii=False).encode() + b"\n"


def _address(licence: str) -> str:
    is_id = (
        licence
        and not licence.startswith("LicenseRef-")
        and all(letter.isalnum() or letter in ".-+" for letter in licence)
    )
    return f"https://spdx.org/licenses/{licence}.html" if is_id else licence or UNKNOWN


def _files(dataset: Dataset) -> Iterator[dict[str, Any]]:
    for file in dataset.files:
        yield {
            "@type": "cr:FileObject",
            "@id": file.name,
            "name": file.name,
            "contentUrl": file.name,
            "contentSize": f"{file.bytes} B",
            "encodingFormat": _PARQUET if file.name.endswith(".parquet") else _LINES,
            "sha256": file.sha256,
        }


def _file_set(config: Config) -> dict[str, Any]:
    return {
        "@type": "cr:FileSet",
        "@id": f"files-{config.name}",
        "name": f"files-{config.name}",
        "description": f"The files of {config.name}.",
        "encodingFormat": _PARQUET,
        "includes": config.path,
    }


def _record_set(config: Config, *, images: bool) -> dict[str, Any]:
    return {
        "@type": "cr:RecordSet",
        "@id": config.name,
        "name": config.name,
        "description": f"{config.row} (split {config.split}, {config.samples} rows).",
        "field": [_field(config, column) for column in sample_schema(config.name, images=images)],
    }


def _field(config: Config, field: pa.Field, parent: str = "", path: str = "") -> dict[str, Any]:
    """Describe a field and its subfields. The source of a subfield is the column and the path in its values."""
    name = f"{parent or config.name}/{field.name}"
    column = parent.removeprefix(f"{config.name}/").partition("/")[0] or field.name
    kind = field.type.value_type if pa.types.is_list(field.type) else field.type
    below = f"{path}.{field.name}" if path else field.name if parent else ""
    source: dict[str, Any] = {"fileSet": {"@id": f"files-{config.name}"}, "extract": {"column": column}}
    if kind == IMAGE:
        source["transform"] = {"jsonPath": "bytes"}
    elif below:
        source["transform"] = {"jsonPath": below}
    values: dict[str, Any] = {"@type": "cr:Field", "@id": name, "name": name}
    if kind == IMAGE:
        values |= {"dataType": "sc:ImageObject", "source": source}
    elif pa.types.is_struct(kind):
        values["subField"] = [_field(config, inner, name, below) for inner in kind]
    else:
        values |= {"dataType": _type_of(kind), "source": source}
    return values | ({"isArray": True, "arrayShape": "-1"} if pa.types.is_list(field.type) else {})


def _type_of(kind: pa.DataType) -> str:
    try:
        return _TYPES[str(kind)]
    except KeyError as error:
        raise ContractError(f"Croissant has no name here for columns of type {kind}") from error
