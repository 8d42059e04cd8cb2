"""Which of Apprise's services may be used: those reached over HTTP, by `requests`, at hosts of their own or
of the user's. What else it can do (a desktop's bus, syslog, brokers, files, plugins of one's own) stays out.
"""

from collections.abc import Mapping

# A final "s" is the same over TLS.
_CHATS = (
    "bale cliq zcliq zohocliq discord evolution evolutions flock fluxer fluxers gchat groupme guilded humhub"
    " humhubs kook line mastodon mastodons matrix matrixs misskey misskeys mmost mmosts nctalk nctalks onebot"
    " onebots revolt ringc rocket rockets ryver session sessions signal signals slack stackfield synology"
    " synologys tgram threema toot toots twist viber webex wechat whapi whatsapp workflow workflows wxteams"
    " zalo zoom zulip"
)
_PUSHES = (
    "apprise apprises bark barks chanify gorush gorushs gotify gotifys hassio hassios ifttt join lametric"
    " lametrics lauther ncloud nclouds notica noticas notifiarr notifico notificos notifyapp ntfy ntfys"
    " onesignal pbul pinglet pinglets pingram pjet pjets pover prowl psafer psafers push pushdeer pushdeers"
    " pushed pushme pushplus pushward pushy qq schan signalgrid simplepush spugpush spush trigv trigvs wpush"
    " wxpusher youlmk"
)
_ON_CALL = (
    "betterstack firehydrant flowtriq flowtriqs goalert goalerts ilert incidentio jira lfg opsgenie opsimate"
    " opsimates pagerduty pagertree signl4 spike splunk squadcast victorops xmatters"
)
_PHONES = (
    "46elks atalk bulksms bulkvs burstsms clickatell clicksend cm d7sms eight00com elks exotel freemobile"
    " gupshup httpsms infobip kaleyra kavenegar klr kudosity mobilemessage mobilemsg msg91 msgbird nexmo"
    " notifyre octopush plivo serwersms seven sfr sinch smsc smseagle smseagles smsmanager smsmgr smstunnel"
    " sns telesign telnyx voipms vonage"
)
ALLOWED = frozenset(f"{_CHATS} {_PUSHES} {_ON_CALL} {_PHONES}".split())

# What has a kind of its own here, which knows the provider's codes, limits and signatures.
OURS: Mapping[str, str] = {
    "dingtalk": "dingtalk",
    "feishu": "feishu",
    "lark": "feishu",
    "wecom": "wecom",
    "wecombot": "wecom",
    "mailto": "email",
    "mailtos": "email",
    "twilio": "sms (or phone)",
    **dict.fromkeys(("form", "forms", "json", "jsons", "xml", "xmls", "http", "https"), "webhook"),
}

# Parameters of a URL that would take from us what is ours to decide, or name a file to be read.
FORBIDDEN = frozenset(
    {"attach", "cto", "emojis", "keyfile", "optional", "overflow", "redirect", "retry", "rto", "store"}
    | {"subfile", "template", "tz", "verify", "wait"}
)
