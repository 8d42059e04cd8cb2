"""What terminals are told between a program's words: colours, cursor moves, titles, links."""

# Of one line: none of it goes on beyond the line's end.
ANSI = (
    r"\x1b(?:\[[0-?]{0,32}[ -/]{0,8}[@-~]"  # colours, cursor
    r"|\][^\x07\x1b\r\n]{0,512}(?:\x07|\x1b\\)?"  # titles, links
    r"|[PX^_][^\x1b\r\n]{0,512}(?:\x1b\\)?|[ -/]?[0-~])"
)
