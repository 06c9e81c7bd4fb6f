//! The HTML page of `floec inspect --html`: one file, no scripts, no fetched styles.

use serde_json::Value;

const STYLE: &str =
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:76rem;padding:0 1rem;color:#1c2733}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}table{border-collapse:collapse;width:100%;font-size:13px}
th,td{text-align:left;padding:.25rem .6rem;border-bottom:1px solid #dde3e8;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}small{color:#5a6b7b}
.bar{background:#2b7a9b;height:.6rem;display:inline-block}code{font-size:12px}";

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn string(value: &Value) -> String {
    match value {
        Value::String(text) => escape(text),
        other => escape(&other.to_string()),
    }
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Renders the report of [`crate::report::plan`].
pub fn render(report: &Value) -> String {
    let title = string(&report["model"]);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title><style>{STYLE}</style>\n\
         <h1>{title}</h1>\n<p>{} bytes, written by {}<br><small>sha256 <code>{}</code></small></p>\n",
        string(&report["bytes"]),
        string(&report["compiler"]),
        string(&report["digest"]),
    );
    for variant in items(&report["variants"]) {
        page += &self::variant(variant);
    }
    page + "</html>\n"
}

fn variant(variant: &Value) -> String {
    let memory = &variant["memory"];
    let mut page = format!(
        "<h2>{}</h2>\n<p>{}; memory {} bytes: weights {}, arena {} (lower bound {}), bindings {}; kernel images {}.</p>\n\
         <table><tr><th>binding<th>direction<th>type<th>shape</tr>\n",
        string(&variant["target"]),
        string(&variant["precision"]),
        string(&memory["total"]),
        string(&memory["weights"]),
        string(&memory["arena"]),
        string(&variant["arena_lower_bound"]),
        string(&memory["bindings"]),
        string(&variant["image_bytes"]),
    );
    for binding in items(&variant["bindings"]) {
        page += &format!(
            "<tr><td>{}<td>{}<td>{}<td>{}</tr>\n",
            string(&binding["name"]),
            string(&binding["direction"]),
            string(&binding["dtype"]),
            string(&binding["shape"]),
        );
    }
    page += "</table>\n<table><tr><th class=n>step<th>kernel<th>model nodes<th class=n>bytes<th class=n>MFLOP\
             <th class=n>µs<th><th><th>runner-up<th>reasons<th>after</tr>\n";
    let steps = items(&variant["steps"]);
    let expected = |step: &Value| step["expected_us"].as_f64().unwrap_or_default();
    let longest = steps.iter().map(expected).fold(f64::MIN_POSITIVE, f64::max);
    for step in steps {
        let sources: Vec<_> = items(&step["sources"]).iter().map(string).collect();
        let reasons: Vec<_> = items(&step["reasons"]).iter().map(string).collect();
        let runner_up = match step["runner_up"].as_str() {
            Some(name) if !name.is_empty() => {
                format!("{} {:.1}", escape(name), step["runner_up_expected_us"].as_f64().unwrap_or_default())
            }
            _ => String::new(),
        };
        page += &format!(
            "<tr><td class=n>{}<td>{} <b>{}</b> <small>{}</small><td>{}<td class=n>{}<td class=n>{:.2}\
             <td class=n>{:.1}<td><small>{}</small><td><span class=bar style=\"width:{:.0}px\"></span><td><small>{runner_up}</small>\
             <td><small>{}</small><td><small>{}</small></tr>\n",
            string(&step["step"]),
            string(&step["family"]),
            string(&step["algorithm"]),
            string(&step["configuration"]),
            sources.join("<br>"),
            string(&step["bytes"]),
            step["flops"].as_f64().unwrap_or_default() / 1e6,
            expected(step),
            if step["measured"] == true { "measured" } else { "expected" },
            100.0 * expected(step) / longest,
            reasons.join("<br>"),
            string(&step["after"]),
        );
    }
    page + "</table>\n"
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_from_a_model_cannot_inject_markup() {
        let report = serde_json::json!({"model": "<script>", "variants": [{"steps": [{"sources": ["<b>"], "reasons": ["<i>"]}]}]});
        let page = super::render(&report);
        assert!(!page.contains("<script>") && page.contains("&lt;b&gt;") && page.contains("&lt;i&gt;"));
    }
}
