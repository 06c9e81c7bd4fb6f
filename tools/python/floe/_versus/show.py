"""A report of `compare` as text and as a picture."""


def said_threads(row):
    return "GPU" if row["threads"] is None else f"{row['threads']} thread{'s' * (row['threads'] > 1)}"


def table(report):
    """The report as text."""
    lines = [
        f"{report['model']} on {report['machine']}: {report['rounds']} rounds of {report['iterations']} runs; "
        "median, least and most of the rounds' medians",
        "",
    ]
    lines.append(
        f"{'program':28} {'runs on':>11} {'in':>4} {'median µs':>12} {'least':>12} {'most':>12} {'relative':>10} {'cosine':>11}"
    )
    for row in report["rows"]:
        head = f"{row['program']:28} {said_threads(row):>11} {row['precision']:>4}"
        if "error" in row:
            lines.append(f"{head} failed: {row['error']}")
            continue
        times = " ".join(f"{row['us'][part]:12.1f}" for part in ("median", "min", "max"))
        off = f"{row['relative']:10.1e} {row['cosine']:11.7f}" if row["relative"] is not None else f"{'–':>10} {'–':>11}"
        lines.append(f"{head} {times} {off}")
    lines += [
        "",
        f"Relative error and cosine: against {report['reference'] or 'nothing, since ONNX Runtime is absent'}, "
        "of the output that is furthest off.",
    ]
    for entry in report["absent"]:
        install = f"; to have it: {entry['install']}" if entry["install"] else ""
        lines.append(f"Absent: {entry['program']}: {entry['why']}{install}")
    lines.append(f"Never run where this was written: {', '.join(report['never_run_here'])}.")
    return "\n".join(lines)


def picture(report):
    """Bars of the medians with least and most, as an SVG of light or dark."""
    from xml.sax.saxutils import escape

    rows = sorted((row for row in report["rows"] if "us" in row), key=lambda row: row["us"]["median"])
    most = max(row["us"]["max"] for row in rows)
    left, right, pitch, top = 250, 200, 34, 54
    width, height = 900, top + pitch * len(rows) + 16
    x = lambda time: left + (width - left - right) * time / most
    style = "text{font:13px system-ui,sans-serif;fill:#18212b}.soft{fill:#5b6875}.bar{fill:#8e9aa6}.floe{fill:#4a7fc1}"
    style += "line{stroke:#18212b}.back{fill:#fff}"
    dark = "text{fill:#e4e9ee}.soft{fill:#9caab7}.back{fill:#1a2027}line{stroke:#e4e9ee}"
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">']
    parts.append(f"<style>{style}@media(prefers-color-scheme:dark){{{dark}}}</style>")
    parts.append(f'<rect class="back" width="{width}" height="{height}"/>')
    parts.append(f'<text x="16" y="24" font-weight="bold">{escape(report["model"])}</text>')
    parts.append(
        f'<text class="soft" x="16" y="42">{escape(report["machine"])}; one run, with its inputs and outputs; shorter is better</text>'
    )
    for number, row in enumerate(rows):
        y, us = top + pitch * number, row["us"]
        kind = "floe" if row["program"].startswith("Floe") else "bar"
        name = f"{row['program']}, {said_threads(row)}, {row['precision']}"
        off = f"  ({row['relative']:.0e})" if row["relative"] is not None else ""
        parts.append(f'<text x="{left - 10}" y="{y + 17}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<rect class="{kind}" x="{left}" y="{y + 3}" width="{x(us["median"]) - left:.1f}" height="20" rx="2"/>')
        parts.append(f'<line x1="{x(us["min"]):.1f}" x2="{x(us["max"]):.1f}" y1="{y + 13}" y2="{y + 13}"/>')
        parts.append(
            f'<text x="{x(us["max"]) + 8:.1f}" y="{y + 17}">{us["median"] / 1000:.3g} ms<tspan class="soft">{off}</tspan></text>'
        )
    return "\n".join(parts) + "\n</svg>\n"
