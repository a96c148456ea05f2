"""What is handed to a GPU, and what is told of what comes back."""

import json

from benchmarks.effect_gpu.__main__ import ARMS, END, page, questions_of


def document(number, answer):
    parts = [["\n<|action|>ls\n<|answer|>", ""], [answer[:2], "copied"], [answer[2:], "new"], [END, "new"]]
    return {"domain": "terminal", "group": f"g{number}", "key": f"{number}", "parts": parts}


def test_a_question_is_all_that_stands_before_the_last_answer_of_a_document():
    (question,) = questions_of([document(1, "a.txt"), document(2, "x" * 5000)])
    assert question["before"] == "\n<|action|>ls\n<|answer|>"
    assert (question["answer"], question["group"]) == ("a.txt", "g1")


def test_arms_are_told_against_raw_by_class_and_by_reward(tmp_path):
    documents = [document(number, "a.txt") for number in range(40)]
    questions = list(questions_of(documents))
    lines = [
        {
            "arm": str(arm),
            "seed": seed,
            "scored": [
                ["terminal", item["group"], kind, bits * 10.0, 10.0] for item in documents for kind in ("copied", "new")
            ],
            "said": ["a.txt" if arm else "nothing"] * len(questions),
        }
        for seed in range(2)
        for arm, bits in enumerate([3.0, 3.0, 4.0, 2.0])
    ]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(question) + "\n" for question in questions))
    (tmp_path / "found.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    table = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in page(tmp_path).splitlines() if line[:1] == "|"
    ]
    assert table[0][2:] == list(ARMS)
    rows = {row[0]: row[1:] for row in table[2:]}
    for name in ("all answers", "new", "copied", "terminal"):
        assert rows[f"{name}, bits per byte"] == [
            "40",
            "3.0000",
            "+0.0000 [+0.0000, +0.0000]",
            "+1.0000 [+1.0000, +1.0000]",
            "-1.0000 [-1.0000, -1.0000]",
        ]
    assert rows["rule reward"][:2] == [str(len(questions)), "0.0000"]
    assert rows["rule reward"][2] == "+1.0000 [+1.0000, +1.0000]"
