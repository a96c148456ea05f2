"""Scripts that live in a served world by the packages of trainers: `URL TOKENIZER SAID WRITTEN`.

Each stands alone. Its agent says the messages of the JSON list `SAID`, in order, whatever it is shown. A JSON line of
`WRITTEN` tells the `session` and what was `shown` of one rollout.
"""
