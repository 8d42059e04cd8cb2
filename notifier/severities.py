"""How grave an alert of somebody else's system is, in our four words."""

from collections.abc import Mapping

from channels.base import Severity

# Words that Prometheus rules, Kubernetes mixins, Grafana, Zabbix, Nagios and PagerDuty use.
_WORDS: Mapping[Severity, str] = {
    Severity.CRITICAL: "critical crit fatal emergency emerg page disaster blocker p0 p1 sev0 sev1",
    Severity.ERROR: "error err major high severe alert urgent p2 sev2",
    Severity.WARNING: "warning warn minor average medium ticket attention p3 sev3",
    Severity.INFO: "info information informational notice none low debug ok trivial p4 p5 sev4 sev5",
}
_KNOWN = {word: severity for severity, words in _WORDS.items() for word in words.split()}


def severity_named(word: object, otherwise: Severity = Severity.ERROR) -> Severity:
    """What a word means; one that is not known is not taken lightly."""
    return _KNOWN.get(word.strip().lower(), otherwise) if isinstance(word, str) else otherwise
