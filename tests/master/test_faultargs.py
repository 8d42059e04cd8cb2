"""The grammar of `--fault-tolerance-args`, as scripts for Baidu's CLI write it, and what it refuses."""

from typing import Any

import pytest

from master.faultargs import FLAGS, FaultTolerance, effective, from_config, parse
from master.flagvalues import SettingError

HANG = "--enable-hang-detection=true "
BAIDU = (
    "--enable-replace=true --enable-hang-detection=true --hang-detection-log-timeout-minutes=7 "
    "--hang-detection-startup-toleration-minutes=15 --hang-detection-stack-timeout-minutes=3 "
    "--max-num-of-unconditional-retry=2 --unconditional-retry-observe-seconds=3600 "
    "--custom-log-patterns=timeout1 --custom-log-patterns=timeout2 --enable-use-nodes-of-last-job=true "
    "--enable-checkpoint-migration=true --internal-fault-tolerance-alarm-phone=10086,10010"
)


def said(text: str) -> dict[str, Any]:
    return parse(text).settings


def refusal(text: str) -> SettingError:
    with pytest.raises(SettingError) as caught:
        parse(text)
    return caught.value


def test_defaults_are_the_contracts() -> None:
    assert effective(parse(""), enabled=True).document() == {
        "enabled": True,
        "enable_replace": False,
        "enable_hang_detection": False,
        "hang_detection_log_timeout_minutes": 7,
        "hang_detection_startup_toleration_minutes": 15,
        "hang_detection_stack_timeout_minutes": 3,
        "max_num_of_unconditional_retry": 0,
        "unconditional_retry_observe_seconds": 3600,
        "custom_log_patterns": [],
        "enable_use_nodes_of_last_job": False,
        "enable_checkpoint_migration": False,
        "internal_fault_tolerance_alarm_phone": [],
        "max_restarts": 10,
        "adaptive_hang_detection": False,
    }


def test_baidus_own_example_is_read_whole() -> None:
    settings = effective(parse(BAIDU), enabled=True)
    assert settings == FaultTolerance(
        enabled=True,
        enable_replace=True,
        enable_hang_detection=True,
        max_num_of_unconditional_retry=2,
        custom_log_patterns=("timeout1", "timeout2"),
        enable_use_nodes_of_last_job=True,
        enable_checkpoint_migration=True,
        internal_fault_tolerance_alarm_phone=("10086", "10010"),
        adaptive_hang_detection=True,
    )
    assert FaultTolerance.of(settings.document()) == settings


@pytest.mark.parametrize(
    ("text", "setting", "value"),
    [
        pytest.param("--enable-replace", "enable_replace", True, id="switch alone"),
        pytest.param("--enable-replace=TRUE", "enable_replace", True, id="case"),
        pytest.param("--enable-replace=0", "enable_replace", False, id="zero"),
        pytest.param("--enable-replace false", "enable_replace", False, id="switch and a word"),
        pytest.param("--max-restarts 3", "max_restarts", 3, id="value as a word"),
        pytest.param("--max-restarts=-1", "max_restarts", -1, id="no limit"),
        pytest.param("--max-restarts -1", "max_restarts", -1, id="no limit as a word"),
        pytest.param("--max-restarts=0", "max_restarts", 0, id="none"),
        pytest.param("  --max-restarts=4\n", "max_restarts", 4, id="spaces and line ends"),
        pytest.param("--max-restarts=4 --max-restarts=4", "max_restarts", 4, id="the same twice"),
        pytest.param("--custom-log-patterns='a b'", "custom_log_patterns", ("a b",), id="quoted"),
        pytest.param('--custom-log-patterns="it\'s"', "custom_log_patterns", ("it's",), id="quote in quotes"),
        pytest.param("--custom-log-patterns=a=b", "custom_log_patterns", ("a=b",), id="equals in a value"),
        pytest.param(
            r"--custom-log-patterns=re:\d+ms", "custom_log_patterns", (r"re:\d+ms",), id="backslash"
        ),
        pytest.param(
            "--custom-log-patterns=a.*b(", "custom_log_patterns", ("a.*b(",), id="literal, not regex"
        ),
        pytest.param("--custom-log-patterns=损失为零", "custom_log_patterns", ("损失为零",), id="chinese"),
        pytest.param("--custom-log-patterns=#1", "custom_log_patterns", ("#1",), id="no comments"),
        pytest.param(
            HANG + "--hang-detection-log-timeout-minutes=0.5",
            "hang_detection_log_timeout_minutes",
            0.5,
            id="fraction",
        ),
        pytest.param(
            HANG + "--hang-detection-startup-toleration-minutes=0",
            "hang_detection_startup_toleration_minutes",
            0,
            id="no toleration",
        ),
        pytest.param(
            "--internal-fault-tolerance-alarm-phone=+86-13800000000",
            "internal_fault_tolerance_alarm_phone",
            ("+86-13800000000",),
            id="phone",
        ),
    ],
)
def test_accepted(text: str, setting: str, value: object) -> None:
    assert said(text)[setting] == value


@pytest.mark.parametrize(
    ("text", "field", "mend"),
    [
        pytest.param("--enable-replac=true", "--enable-replac", "did you mean --enable-replace?", id="typo"),
        pytest.param("--rm", "--rm", "unknown flag", id="unknown"),
        pytest.param("-x=1", "--fault-tolerance-args", "--flag=value", id="one dash"),
        pytest.param("yes", "--fault-tolerance-args", "'yes' is no flag", id="a word"),
        pytest.param("--enable-replace=yes", "--enable-replace", "true or", id="no boolean"),
        pytest.param("--enable-replace=", "--enable-replace", "true or", id="empty boolean"),
        pytest.param("--max-restarts", "--max-restarts", "needs a value", id="value missing"),
        pytest.param(
            "--max-restarts --enable-replace", "--max-restarts", "needs a value", id="flag as a value"
        ),
        pytest.param("--max-restarts=", "--max-restarts", "whole number", id="empty number"),
        pytest.param("--max-restarts=-2", "--max-restarts", "-1 (no limit)", id="below"),
        pytest.param("--max-restarts=1e3", "--max-restarts", "whole number", id="float"),
        pytest.param("--max-restarts=١٢", "--max-restarts", "whole number", id="other digits"),
        pytest.param(f"--max-restarts={'9' * 5000}", "--max-restarts", "whole number", id="huge"),
        pytest.param(
            "--max-restarts=1 --max-restarts=2", "--max-restarts", "given twice", id="contradiction"
        ),
        pytest.param(
            "--max-num-of-unconditional-retry=4", "--max-num-of-unconditional-retry", "0 to 3", id="four"
        ),
        pytest.param(
            "--hang-detection-log-timeout-minutes=5",
            "--hang-detection-log-timeout-minutes",
            "add --enable-hang-detection=true",
            id="hang flag alone",
        ),
        pytest.param(
            "--enable-hang-detection=false --hang-detection-stack-timeout-minutes=5",
            "--hang-detection-stack-timeout-minutes",
            "add --enable-hang-detection=true",
            id="hang flag and detection off",
        ),
        pytest.param(
            "--adaptive-hang-detection", "--adaptive-hang-detection", "add --enable-hang", id="adaptive alone"
        ),
        *(
            pytest.param(
                HANG + f"--hang-detection-log-timeout-minutes={value}",
                "--hang-detection-log-timeout-minutes",
                "minutes",
                id=f"minutes {value}",
            )
            for value in ("0", "-1", "nan", "inf", "1e9", "soon", "", "１", "1_0", "1.５")
        ),
        pytest.param("--custom-log-patterns=", "--custom-log-patterns", "1 to 500", id="empty pattern"),
        pytest.param(
            f"--custom-log-patterns={'a' * 501}", "--custom-log-patterns", "1 to 500", id="long pattern"
        ),
        pytest.param("--custom-log-patterns=re:(a", "--custom-log-patterns", "RE2", id="broken regex"),
        pytest.param("--custom-log-patterns=re:(?<=a)b", "--custom-log-patterns", "RE2", id="lookbehind"),
        pytest.param("--custom-log-patterns=re:a*", "--custom-log-patterns", "every line", id="matches all"),
        pytest.param("--custom-log-patterns=re:", "--custom-log-patterns", "every line", id="empty regex"),
        pytest.param(
            "--custom-log-patterns=re:((a{900}){900})", "--custom-log-patterns", "RE2", id="regex bomb"
        ),
        pytest.param(
            " ".join(f"--custom-log-patterns=p{n}" for n in range(51)),
            "--custom-log-patterns",
            "50",
            id="many",
        ),
        pytest.param("--custom-log-patterns='a", "--fault-tolerance-args", "quotation", id="open quote"),
        pytest.param(
            "--custom-log-patterns=\x1b[31m", "--custom-log-patterns", "printable", id="escape codes"
        ),
        pytest.param(
            "--internal-fault-tolerance-alarm-phone=nobody",
            "--internal-fault-tolerance-alarm-phone",
            "no phone number",
            id="no phone",
        ),
        pytest.param(
            "--internal-fault-tolerance-alarm-phone=,",
            "--internal-fault-tolerance-alarm-phone",
            "1 to",
            id="commas",
        ),
        pytest.param("--enable-replace " * 2000, "--fault-tolerance-args", "shorten", id="endless"),
        pytest.param("--" + "x" * 5000, "--" + "x" * 57 + "…", "unknown flag", id="long unknown"),
    ],
)
def test_refused(text: str, field: str, mend: str) -> None:
    error = refusal(text)
    assert error.field == field
    assert mend in error.message
    assert len(str(error)) < 400
    assert str(error).isprintable()


def test_hang_detection_switches_the_adaptive_one_on_unless_told() -> None:
    assert effective(parse(HANG), enabled=True).adaptive_hang_detection
    assert not effective(
        parse(HANG + "--adaptive-hang-detection=false"), enabled=True
    ).adaptive_hang_detection


def test_every_flag_is_a_setting() -> None:
    assert {flag.setting for flag in FLAGS.values()} | {"enabled"} == set(FaultTolerance.__dataclass_fields__)


def test_config_object() -> None:
    given = from_config(hang=True, timeout_minutes=15, restarts=2, patterns=["Loss nan"])
    assert effective(given, enabled=True) == FaultTolerance(
        enabled=True,
        enable_hang_detection=True,
        hang_detection_log_timeout_minutes=15,
        max_restarts=2,
        custom_log_patterns=("Loss nan",),
        adaptive_hang_detection=True,
    )


@pytest.mark.parametrize(
    ("given", "field"),
    [
        pytest.param({"hang": None, "timeout_minutes": 5}, "hangDetectionTimeoutMinutes", id="timeout alone"),
        pytest.param({"hang": True, "timeout_minutes": 0}, "hangDetectionTimeoutMinutes", id="zero"),
        pytest.param({"restarts": -2}, "faultToleranceLimit", id="restarts"),
        pytest.param({"patterns": [""]}, "customFaultTolerancePattern", id="pattern"),
    ],
)
def test_config_refused(given: dict[str, Any], field: str) -> None:
    whole = {"hang": None, "timeout_minutes": None, "restarts": None, "patterns": None, **given}
    with pytest.raises(SettingError) as caught:
        from_config(**whole)
    assert caught.value.field == f"faultToleranceConfig.{field}"


def test_a_hang_is_looked_for_without_fault_tolerance_too_if_asked_for() -> None:
    assert effective(parse(HANG), enabled=False).hang.enabled
    assert not effective(parse(""), enabled=False).hang.enabled
    assert effective(parse(HANG), enabled=True).hang.enabled
