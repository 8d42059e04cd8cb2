"""Data only: `<language>/<item>.words.j2` what an alert says, `<language>/words.json` names in that language,
`forms/` how it is laid out in each format, `console/` the pages."""
