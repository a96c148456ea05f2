import subprocess
import sys

import pytest

from tests.conftest import ROOT
from trajmill import schemas
from trajmill.schemas import contract


def test_schemas_gives_all_that_stands_on_arrow_and_no_other_name():
    for name in contract.__all__:
        assert getattr(schemas, name) is getattr(contract, name)
    with pytest.raises(AttributeError):
        getattr(schemas, "nothing")  # noqa: B009 - which mypy would not let stand
    with pytest.raises(ImportError):
        exec("from trajmill.schemas import nothing")


def test_errors_and_domains_come_without_arrow():
    code = (
        "import sys\n"
        "from trajmill.schemas import DOMAINS, ConfigError, ShardError\n"
        "assert 'pyarrow' not in sys.modules\n"
        "from trajmill.schemas import Step\n"
        "assert 'pyarrow' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
