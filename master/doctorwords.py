"""What `faultcast doctor` says, in English and Chinese: what was found, and the mend."""

Said = tuple[str, str]  # what, mend

WORDS: dict[str, dict[str, Said]] = {
    "plain": {"en": ("{said}", ""), "zh": ("{said}", "")},
    "wrong": {"en": ("{said}", "mend it as it says"), "zh": ("{said}", "按上面的说明改正")},
    "versions": {
        "en": ("faultcast {faultcast} on Python {python}, tables {head}", ""),
        "zh": ("faultcast {faultcast}，Python {python}，表结构 {head}", ""),
    },
    "setting_like": {
        "en": ("{setting} is no setting, and is not read", "perhaps {like} is meant"),
        "zh": ("{setting} 不是设置项，不会被读取", "也许是 {like}"),
    },
    "setting_unknown": {
        "en": ("{setting} is no setting, and is not read", "take it away, or see the list of settings"),
        "zh": ("{setting} 不是设置项，不会被读取", "请删除，或查看设置项列表"),
    },
    "data_dir": {"en": ("{folder}", ""), "zh": ("{folder}", "")},
    "no_data_dir": {
        "en": ("{folder} is not there", "run faultcast up or faultcast migrate, or set FAULTCAST_DATA_DIR"),
        "zh": ("{folder} 不存在", "运行 faultcast up 或 faultcast migrate，或设置 FAULTCAST_DATA_DIR"),
    },
    "data_dir_closed": {
        "en": ("{folder} cannot be written by this user", "run as its owner, or name another folder"),
        "zh": ("当前用户不能写 {folder}", "以目录所有者运行，或换一个目录"),
    },
    "open_to_others": {
        "en": ("others of this machine may read {path}", "chmod go-rwx {path}"),
        "zh": ("本机其他用户可以读取 {path}", "chmod go-rwx {path}"),
    },
    "disk": {"en": ("{free} MiB are free", ""), "zh": ("剩余 {free} MiB", "")},
    "disk_low": {
        "en": ("only {free} MiB are free", "free some space: a full disk takes no alert"),
        "zh": ("只剩 {free} MiB", "请释放空间：磁盘满时无法接收告警"),
    },
    "database": {"en": ("{kind}, revision {revision}", ""), "zh": ("{kind}，版本 {revision}", "")},
    "database_away": {
        "en": ("{kind} does not answer ({why})", "is it running, and is FAULTCAST_DATABASE_URL right?"),
        "zh": ("{kind} 没有应答（{why}）", "它在运行吗？FAULTCAST_DATABASE_URL 正确吗？"),
    },
    "database_old": {
        "en": (
            "at revision {found}, this program's is {head}",
            "run faultcast migrate; what runs meanwhile goes on",
        ),
        "zh": (
            "版本 {found}，本程序需要 {head}",
            "运行 faultcast migrate；期间正在运行的部件不受影响",
        ),
    },
    "database_empty": {
        "en": ("without tables, this program wants revision {head}", "run faultcast migrate"),
        "zh": ("还没有表，本程序需要版本 {head}", "运行 faultcast migrate"),
    },
    "writes": {"en": ("a row can be written", ""), "zh": ("可以写入", "")},
    "no_writes": {
        "en": ("it takes no row ({why})", "is its disk full, or is it a read-only standby?"),
        "zh": ("无法写入（{why}）", "磁盘已满？还是只读副本？"),
    },
    "key": {"en": ("opens the channels' secrets", ""), "zh": ("可以解开渠道机密", "")},
    "key_unused": {"en": ("nothing was sealed yet", ""), "zh": ("尚未加密任何内容", "")},
    "clock": {"en": ("within {skew} s of {whose}", ""), "zh": ("与{whose}相差 {skew} 秒以内", "")},
    "clock_off": {
        "en": ("{skew} s away from {whose}", "let NTP set both clocks"),
        "zh": ("与{whose}相差 {skew} 秒", "请用 NTP 校准两边的时钟"),
    },
    "workers": {"en": ("{count} at work: {hosts}", ""), "zh": ("{count} 个在工作：{hosts}", "")},
    "no_workers": {
        "en": ("none has spoken lately", "start faultcast worker (or faultcast up); read its log"),
        "zh": ("最近没有 worker 上报", "启动 faultcast worker（或 faultcast up），并查看其日志"),
    },
    "workers_late": {
        "en": (
            "a delivery is overdue by {late_s} s",
            "start faultcast worker (or faultcast up); read its log",
        ),
        "zh": ("有投递已超时 {late_s} 秒", "启动 faultcast worker（或 faultcast up），并查看其日志"),
    },
    "versions_differ": {
        "en": ("workers of releases {versions} run beside each other", "restart the old ones"),
        "zh": ("同时运行着 {versions} 版本的 worker", "重启旧的 worker"),
    },
    "leader": {"en": ("each pool has one", ""), "zh": ("每个资源池都有", "")},
    "no_leader": {
        "en": (
            "nobody leads pool {pools}: its jobs are not looked after",
            "start faultcast server (or faultcast up)",
        ),
        "zh": ("资源池 {pools} 没有 master：任务无人照看", "启动 faultcast server（或 faultcast up）"),
    },
    "doorbell": {"en": ("answers", ""), "zh": ("有应答", "")},
    "doorbell_embedded": {
        "en": ("embedded; faultcast up looks after it", ""),
        "zh": ("内嵌，由 faultcast up 照看", ""),
    },
    "doorbell_away": {
        "en": ("does not answer ({why}): alerts leave about a second later", "check FAULTCAST_REDIS_URL"),
        "zh": ("没有应答（{why}）：告警会晚大约一秒", "检查 FAULTCAST_REDIS_URL"),
    },
    "channels": {"en": ("{count}, none broken", ""), "zh": ("{count} 个，均正常", "")},
    "rules": {
        "en": ("whom rules and on-call lists name is there", ""),
        "zh": ("规则和值班表提到的渠道都在", ""),
    },
    "rules_strays": {
        "en": (
            "named, but not there: {said}",
            "make the channel again, or give whoever names it others (faultcast alerts set, faultcast apply)",
        ),
        "zh": (
            "提到了但不存在：{said}",
            "重新创建渠道，或让提到它的改用其他渠道（faultcast alerts set、faultcast apply）",
        ),
    },
    "channels_broken": {
        "en": (
            "broken: {names}; {held} deliveries are held",
            "faultcast channel get NAME says why; mend it, then faultcast channel test NAME",
        ),
        "zh": (
            "已损坏：{names}；{held} 条消息被扣留",
            "faultcast channel get NAME 会说明原因；修好后运行 faultcast channel test NAME",
        ),
    },
    "agents": {"en": ("of {count} nodes all are heard", ""), "zh": ("{count} 个节点都有消息", "")},
    "agents_silent": {
        "en": ("silent: {names}", "is faultcast agent --node running there, and does it reach the server?"),
        "zh": ("没有消息：{names}", "那里的 faultcast agent --node 在运行吗？能连上 server 吗？"),
    },
    "reached": {"en": ("{setting} answers", ""), "zh": ("{setting} 有应答", "")},
    "not_reached": {
        "en": ("{setting}: {why}", "check {setting}, the network and FAULTCAST_CA_BUNDLE"),
        "zh": ("{setting}：{why}", "检查 {setting}、网络与 FAULTCAST_CA_BUNDLE"),
    },
    "not_set": {"en": ("{setting} is not set: {so}", "{mend}"), "zh": ("未设置 {setting}：{so}", "{mend}")},
    "off": {"en": ("not set", ""), "zh": ("未设置", "")},
    "certificate": {"en": ("good until {until}", ""), "zh": ("有效期至 {until}", "")},
    "certificate_ends": {
        "en": ("ends on {until}", "renew it; the server takes up the new file by itself"),
        "zh": ("{until} 到期", "请更新证书；server 会自动读取新文件"),
    },
    "no_tls": {
        "en": (
            "{bind} is served without TLS: tokens can be read on the way",
            "set FAULTCAST_TLS_CERT and FAULTCAST_TLS_KEY, or let a proxy on this machine speak TLS",
        ),
        "zh": (
            "{bind} 没有使用 TLS：令牌可能在途中被读取",
            "设置 FAULTCAST_TLS_CERT 与 FAULTCAST_TLS_KEY，或由本机代理提供 TLS",
        ),
    },
    "server": {"en": ("{url} answers", ""), "zh": ("{url} 有应答", "")},
    "no_server": {
        "en": (
            "{url} does not answer ({why})",
            "start it (faultcast up) or name it (--server); FAULTCAST_CA_BUNDLE says whom to trust",
        ),
        "zh": (
            "{url} 没有应答（{why}）",
            "启动它（faultcast up）或指定它（--server）；信任谁的证书由 FAULTCAST_CA_BUNDLE 设定",
        ),
    },
    "remote": {"en": ("{said}", ""), "zh": ("{said}", "")},
    "remote_trouble": {
        "en": ("{said}", "run faultcast doctor on the server's machine"),
        "zh": ("{said}", "在 server 所在机器上运行 faultcast doctor"),
    },
    "no_token": {
        "en": ("not asked: {why}", "give --token or FAULTCAST_TOKEN"),
        "zh": ("未查询：{why}", "请提供 --token 或 FAULTCAST_TOKEN"),
    },
}  # fmt: skip

NOT_SET: dict[str, dict[str, Said]] = {
    "FAULTCAST_SMTP_URL": {
        "en": ("e-mail channels need an smtp_url of their own", "set it, if e-mail is to be sent"),
        "zh": ("邮件渠道必须自带 smtp_url", "如需发送邮件请设置"),
    },
    "FAULTCAST_WATCHDOG_URL": {
        "en": ("if Faultcast dies nobody is told", "set it to a check of healthchecks.io or the like"),
        "zh": ("Faultcast 自己死掉时没有人会知道", "设置为 healthchecks.io 之类的检查地址"),
    },
    "FAULTCAST_PUBLIC_URL": {
        "en": ("messages carry no links", "set it to the address at which people open the console"),
        "zh": ("消息里没有链接", "设置为大家打开控制台的地址"),
    },
}
STRANGER = {
    "en": "answers {status}, and not as Faultcast does",
    "zh": "应答 {status}，但不像是 Faultcast",
}
WHOSE = {
    "database": {"en": "the database's clock", "zh": "数据库时钟"},
    "server": {"en": "the server's clock", "zh": "server 时钟"},
    "workers": {"en": "the workers' clocks", "zh": "worker 时钟"},
}


def words(language: str, key: str, values: dict[str, object]) -> Said:
    """What was found and the mend, in that language."""
    what, mend = WORDS[key][language]
    return what.format_map(values), mend.format_map(values)
