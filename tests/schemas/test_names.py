import pytest

from trajmill import schemas
from trajmill.schemas import contract


def test_schemas_gives_all_that_stands_on_arrow_and_no_other_name():
    for name in contract.__all__:
        assert getattr(schemas, name) is getattr(contract, name)
    with pytest.raises(AttributeError):
        getattr(schemas, "nothing")  # noqa: B009 - which mypy would not let stand
    with pytest.raises(ImportError):
        exec("from trajmill.schemas import nothing")
