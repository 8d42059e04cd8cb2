"""What is asked where the provider's word is in the body of its answer: no status is a success by itself."""

import pytest

from channels.base import Outcome
from channels.contract.desk import Desk
from channels.contract.every import AdapterContract
from channels.standin import Scripted

UNREADABLE = {
    "empty": "",
    "html": "<html>gateway</html>",
    "array": "[0]",
    "no code": "{}",
    "null": '{"errcode":null,"code":null,"Code":null}',
    "false": '{"errcode":false,"code":false,"Code":false}',
    "words": '{"errcode":"ok","code":"yes","Code":"Oki"}',
    "binary": "\x00\x01",
    "deep": "[" * 50_000,
}


class WordContract(AdapterContract):
    @pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
    def test_an_unreadable_200_is_never_success(self, desk: Desk, body: str) -> None:
        assert desk.answered(Scripted(200, body)).outcome not in (Outcome.DELIVERED, Outcome.ACCEPTED)

    @pytest.mark.parametrize("status", [204, 302, 400, 401, 403, 404, 408, 429, 500, 502, 503])
    def test_a_status_without_a_word_is_never_success(self, desk: Desk, status: int) -> None:
        assert desk.answered(Scripted(status)).outcome not in (Outcome.DELIVERED, Outcome.ACCEPTED)
