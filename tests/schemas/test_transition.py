import json

import jsonschema
import pyarrow as pa

from tests.make import batch_of, trajectory
from trajmill.schemas import DOMAINS, TRANSITION_SCHEMA, json_schema
from trajmill.schemas.transition import PLAIN_TEXT, SHARED_TEXT, dictionary_columns, encoded_schema, leaves


def fields_of(schema: pa.Schema):
    def walk(field: pa.Field, path: str):
        yield path, field
        if pa.types.is_struct(field.type):
            for child in field.type.fields:
                yield from walk(child, f"{path}.{child.name}")

    for field in schema:
        yield from walk(field, field.name)


def test_every_column_says_what_it_holds_and_what_null_means():
    for path, field in fields_of(TRANSITION_SCHEMA):
        assert field.metadata[b"doc"], path
        assert field.nullable == (b"null" in field.metadata), path


def test_the_json_schema_is_valid_and_accepts_a_row():
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    row = batch_of(trajectory()).to_pylist()[0]
    jsonschema.validate(json.loads(json.dumps(row, default=str)), schema)


def test_the_seven_domains_are_in_the_json_schema():
    assert json_schema()["properties"]["domain"]["enum"] == list(DOMAINS)


def test_repeating_text_is_dictionary_encoded_and_unique_text_is_not():
    kinds = dict(leaves(encoded_schema()))
    assert all(pa.types.is_dictionary(kinds[path]) for path in SHARED_TEXT)
    assert not any(pa.types.is_dictionary(kinds[path]) for path in PLAIN_TEXT)
    assert set(dictionary_columns()) == {path for path, kind in kinds.items() if pa.types.is_dictionary(kind)}
