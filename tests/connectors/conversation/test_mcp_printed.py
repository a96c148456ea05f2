"""Results of the Model Context Protocol as Python prints them."""

import pytest

from trajmill.connectors.conversation.mcp_printed import Printed, printed

BLOCK = "TextContent(type='text', text={}, annotations=None, meta=None)"


def result(*texts: str, end: str = " isError=False") -> str:
    return f"meta=None content=[{', '.join(BLOCK.format(text) for text in texts)}]{end}"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (result(r"'a\n\'b\' \"c\" \\'"), Printed("a\n'b' \"c\" \\", False, False)),
        (
            result('"it\'s"', "'two'", end=" structuredContent={'a': 'b'} isError=True"),
            Printed("it's\ntwo", True, False),
        ),
        (result(), Printed("", False, False)),
        (result("'a'", end=" structured_content=None is_error=True result_type='complete'"), Printed("a", True, False)),
        (
            "CallToolResult(content=[TextContent(type='text', text='a')], structured_content=None, is_error=False)",
            Printed("a", False, False),
        ),
        ("meta=None content=[TextContent(type='text', text='half \\", Printed("half ", None, True)),
        ("meta=None content=[TextContent(type='text', text='a\\\\", Printed("a\\", None, True)),
        ("content=[TextContent(type='text', text='caf\\xe", Printed("caf", None, True)),
    ],
)
def test_a_printed_result_is_its_texts_with_its_error_flag_and_cut(text, wanted):
    assert printed(text) == wanted


@pytest.mark.parametrize(
    "text",
    ["meta=None content=[ImageContent(type='image', data='aa')] isError=False", "content=[1, 2]", "meta=None", ""],
)
def test_what_is_no_result_of_texts_is_left_as_it_is(text):
    assert printed(text) is None
