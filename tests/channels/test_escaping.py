"""Data stays data."""

import pytest

from channels.escaping import GAP, clean, dingtalk, lark, one_line, unlinked, unmention, wecom


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a\r\nb\rc\u2028d", "a\nb\nc\nd", id="line-breaks"),
        pytest.param("\x1b[1;31mred\x1b[0m", "red", id="colours"),
        pytest.param("\x1b]8;;http://evil\x07link\x1b]8;;\x07", "link", id="terminal-links"),
        pytest.param("\x1b]0;unterminated", "]0;unterminated", id="an-open-sequence-swallows-nothing"),
        pytest.param("a\x00\x07\x7f\x9fb", "ab", id="control-characters"),
        pytest.param("\u202egnp.exe\u2069", "gnp.exe", id="directions"),
        pytest.param("<\x00at id=all>", "<at id=all>", id="is-no-escape-by-itself"),
        pytest.param("a\tb  c", "a\tb  c", id="blanks-stay"),
        pytest.param("👩‍👧 e\u0301 训", "👩‍👧 e\u0301 训", id="writing-stays"),
        pytest.param("\ud800x", "x", id="lone-surrogate"),
    ],
)
def test_clean(text, expected):
    assert clean(text) == expected


def test_one_line():
    assert one_line(" a\r\n b\tc ", 10) == "a b c"
    assert one_line("训" * 20, 5) == "训训训训…"


def test_plain_text_calls_nobody():
    assert unmention("<@all> @bob") == f"<{GAP}@{GAP}all> @{GAP}bob"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("NCCL_IB **x** `y`", "NCCL\\_IB \\*\\*x\\*\\* \\`y\\`", id="emphasis"),
        pytest.param("C:\\new", "C:\\\\new", id="backslash"),
        pytest.param("[x](http://y)", f"[x]{GAP}(http{GAP}://y)", id="link"),
        pytest.param("<font>", f"<{GAP}font>", id="tag"),
        pytest.param("&lt;at", f"&{GAP}lt;at", id="entity"),
        pytest.param("# h\n> q\n- l\n1. n", f"{GAP}# h\n{GAP}> q\n{GAP}- l\n{GAP}1. n", id="line-starts"),
        pytest.param("    File", "\u00a0" * 4 + "File", id="indent-is-no-code-block"),
        pytest.param("a - b > c # d", "a - b > c # d", id="only-at-line-starts"),
    ],
)
def test_dingtalk(text, expected):
    assert dingtalk(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("**x** `y` a_b", "∗∗x∗∗ ˋyˋ a_b", id="emphasis"),
        pytest.param("<@all>", f"<{GAP}@{GAP}all>", id="mention"),
        pytest.param("[x](http://y)", f"[x]{GAP}(http{GAP}://y)", id="link"),
        pytest.param("# h\n > q", f"{GAP}# h\n {GAP}> q", id="line-starts"),
    ],
)
def test_wecom(text, expected):
    assert wecom(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("<at id=all>", "&#60;at id=all&#62;", id="mention"),
        pytest.param("a*b_c~`", "a&#42;b&#95;c&#126;&#96;", id="emphasis"),
        pytest.param("&#42;", "&#38;&#35;42;", id="entities-stay-literal"),
        pytest.param("[x](y)", "&#91;x&#93;(y)", id="link"),
        pytest.param("- l\n---", "&#45; l\n&#45;--", id="lists-and-rules"),
        pytest.param(":DONE: 12:30:45", "&#58;DONE: 12:30:45", id="emoji-names"),
    ],
)
def test_lark(text, expected):
    assert lark(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("see https://evil.com/x?y", f"see https{GAP}://evil{GAP}.com/x?y", id="url"),
        pytest.param("evil.com, a.b.cn", f"evil{GAP}.com, a.b{GAP}.cn", id="names-under-usual-top-levels"),
        pytest.param("evil.com__x", f"evil{GAP}.com__x", id="a-name-before-an-underscore"),
        pytest.param("www.evil.example", f"www{GAP}.evil.example", id="www"),
        pytest.param("evil.party/login", f"evil{GAP}.party/login", id="any-name-with-a-path"),
        pytest.param("mailto:x tel:1", f"mailto{GAP}:x tel{GAP}:1", id="schemes"),
        pytest.param("call 13800001111", f"call 138{GAP}00001111", id="mobile"),
        pytest.param("+8613800001111", f"+861{GAP}3800001111", id="international"),
        pytest.param("138-0000-1111 138 0000 1111", f"138{GAP}-0000-1111 138{GAP} 0000 1111", id="in-groups"),
        pytest.param("0755-12345678", f"0755{GAP}-123{GAP}45678", id="landline"),
        pytest.param("-13800001111- .13800001111", f"-138{GAP}00001111- .138{GAP}00001111", id="marks"),
        pytest.param("_www.x_ _https://y", f"_www{GAP}.x_ _https{GAP}://y", id="links-beside-underscores"),
        pytest.param("__13800001111_", f"__138{GAP}00001111_", id="beside-underscores"),
        pytest.param("2026-09-04 14:14:15 +08:00", "2026-09-04 14:14:15 +08:00", id="a-date-is-no-phone"),
        pytest.param("step 184220 of 200000", "step 184220 of 200000", id="a-step-is-no-phone"),
        pytest.param("torch.AcceleratorError: x.y", "torch.AcceleratorError: x.y", id="a-class-is-no-host"),
        pytest.param("0000:3b:00.0 0xdeadbeef01234567", "0000:3b:00.0 0xdeadbeef01234567", id="pci-and-hex"),
    ],
)
def test_what_clients_make_links_of_is_broken_unseen(text, expected):
    assert unlinked(text) == expected
    assert unlinked(text).replace(GAP, "") == text
