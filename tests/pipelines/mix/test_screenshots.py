"""Screenshots of samples: resized and written anew, in the order of the placeholders that stand for them."""

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from trajmill.pipelines.generations.verification import verify
from trajmill.pipelines.mix.screenshots import resize_picture
from trajmill.pipelines.publish.hub.push import Request, push
from trajmill.pipelines.publish.hub.repository import Repository
from trajmill.pipelines.publish.loading import verify_loading
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.folders import Folder
from trajmill.schemas import ConfigError

KINDS = {"st": "state", "cp": "component"}
SPACES = " ".join(f'xmlns:{key}="https://accessibility.ubuntu.example.org/ns/{kind}"' for key, kind in KINDS.items())
SHOWN = 'st:showing="true" st:visible="true" cp:screencoord="(0, 0)" cp:size="(90, 60)"'
STEPS = 3


def png(color: tuple[int, int, int], size: tuple[int, int] = (90, 60), **more: Any) -> bytes:
    stream = BytesIO()
    Image.new("RGB", size, color).save(stream, "PNG", **more)
    return stream.getvalue()


def color(task: int, step: int) -> tuple[int, int, int]:
    return (40 * step, 20 * task, 7)


def write_task(folder: Path, task: int) -> None:
    """A task of OSWorld, whose screens say in their first pixel and in their text which task and step they are of."""
    folder.mkdir(parents=True)
    lines = []
    for step in range(STEPS + 1):
        stem = f"step_{step}_20260101@12000{step}" if step else "step_0"
        label = f'<label name="task {task} step {step} &lt;image&gt;" {SHOWN}/>'
        frame = f'<application name="notes"><frame name="Notes" {SHOWN}>{label}</frame></application>'
        (folder / f"{stem}.xml").write_text(f"<desktop-frame {SPACES}>{frame}</desktop-frame>")
        (folder / f"{stem}.png").write_bytes(png(color(task, step)) if (task, step) != (1, 1) else b"\x89PNG damaged")
        event = {"step_num": step, "action": f"pyautogui.click({step}, {task})", "screenshot_file": f"{stem}.png"}
        lines += [json.dumps({**event, "done": False, "reward": 0, "info": {}, "response": ""})] if step else []
    (folder / "traj.jsonl").write_text("\n".join(lines))


def recipe(**mix: Any) -> Recipe:
    own = {"images": 45, "control_tokens": "escape", "pools": {"sft": 0.5, "rl": 0.5}, **mix}
    return Recipe.model_validate(
        {"name": "a", "source": "a", "licence": "MIT", "normalize": {"attachments": "keep"}, "mix": own}
    )


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("raw")
    for task in range(6):
        write_task(folder / "pyautogui" / "a11y_tree" / "model" / "notes" / f"task{task}", task)
    return folder


@pytest.fixture(scope="module")
def out(raw: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out") / "out"
    summary = Run(recipe(), [str(raw)], str(out)).run()
    assert any("no picture is scrubbed" in line for line in summary.warnings)
    return out


def samples(out: Path, cache: Path) -> Iterator[tuple[list[str], list[Image.Image]]]:
    """The user messages and the decoded pictures of each sample of SFT and RL, as `datasets` loads them."""
    from datasets import load_dataset

    for pool, column in (("sft", "messages"), ("rl", "prompt")):
        for row in load_dataset(str(out / "shards"), pool, split="train", cache_dir=str(cache)):
            yield [message["content"] for message in row[column] if message["role"] == "user"], row["images"]


def test_each_placeholder_stands_for_the_screen_before_its_action(out: Path, tmp_path: Path) -> None:
    lost = 0
    for users, images in samples(out, tmp_path):
        waiting = iter(images)
        task = int(users[0].partition("task ")[2][0])
        for step, user in enumerate(users):
            if (task, step) == (1, 1):  # its screenshot is damaged
                assert "<image>" not in user
                lost += 1
                continue
            assert user.startswith("<image>\n")
            assert user.count("<image>") == 1
            image = next(waiting)
            assert image.size == (45, 30)
            assert image.getpixel((0, 0)) == color(task, step)
        assert next(waiting, None) is None
    counts = json.loads((out / "shards" / "manifest.json").read_text())["counts"]
    assert sum(count for name, count in counts.items() if name.startswith("images_lost.")) == lost
    shown = [len(images) for _, images in samples(out, tmp_path)]
    assert sum(count for name, count in counts.items() if name.startswith("images.")) == sum(shown)


def test_a_file_without_its_card_decodes_too_and_verifying_loads_it(out: Path, tmp_path: Path) -> None:
    from datasets import load_dataset

    files = str(out / "shards" / "sft" / "*" / "*.parquet")
    (row, *_) = load_dataset("parquet", data_files=files, split="train", cache_dir=str(tmp_path))
    assert {image.size for image in row["images"]} == {(45, 30)}
    report = verify_loading(verify(str(out)))
    assert report.is_whole, report.faults


def test_equal_logs_give_equal_bytes_and_without_the_option_there_is_no_column(
    raw: Path, out: Path, tmp_path: Path
) -> None:
    Run(recipe(), [str(raw)], str(tmp_path / "again")).run()
    Run(recipe(images=None), [str(raw)], str(tmp_path / "texts")).run()
    for path in sorted((out / "shards").rglob("*.parquet")):
        name = path.relative_to(out)
        assert (tmp_path / "again" / name).read_bytes() == path.read_bytes()
        assert "images" not in pq.read_schema(tmp_path / "texts" / name).names


def test_push_refuses_pictures_that_the_recipe_does_not_let_through(out: Path) -> None:
    request = Request(frozenset({"MIT"}))
    with pytest.raises(ConfigError, match="no picture is scrubbed"):
        push(Folder(str(out / "shards")), Repository("mill/worlds", "main"), request, lambda _: None)


@pytest.mark.parametrize(
    "values",
    [
        {"mix": {"images": 512, "control_tokens": "escape"}},
        {"mix": {"images": 512}, "normalize": {"attachments": "keep"}},
    ],
)
def test_pictures_need_attachments_and_texts_without_placeholders(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"mix\.images needs"):
        Recipe.model_validate({"name": "a", "source": "a", **values})


def test_a_picture_is_made_smaller_never_larger_and_only_its_pixels_go_along() -> None:
    info = PngInfo()
    info.add_text("path", "a secret")
    for size, longest, expected in (((90, 60), 45, (45, 30)), ((60, 90), 45, (30, 45)), ((90, 60), 90, (90, 60))):
        picture = resize_picture(png((1, 2, 3), size, pnginfo=info), longest)
        assert picture is not None
        assert b"secret" not in picture
        with Image.open(BytesIO(picture)) as image:
            assert (image.format, image.size, image.getpixel((5, 5))) == ("PNG", expected, (1, 2, 3))


def test_what_is_no_picture_or_unfolds_to_too_many_pixels_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resize_picture(b"", 64) is None
    assert resize_picture(b"<svg/>", 64) is None
    assert resize_picture(png((0, 0, 0))[:45], 64) is None
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 90 * 60 - 1)
    assert resize_picture(png((0, 0, 0)), 64) is None
