//! The HTML page of `floec compare --html`: one file, no scripts, no fetched styles; light and dark.

use crate::shapes::{self, Shape};
use floe_accuracy::compare::{Comparison, Layer};
use floe_kernels::DType;
use std::fmt::Write;

const STYLE: &str = ":root{color-scheme:light dark;--text:#1c2733;--soft:#5a6b7b;--line:#dde3e8;--back:#fff;--mark:#2b7a9b;--bad:#c0392b}
@media(prefers-color-scheme:dark){:root{--text:#dfe7ee;--soft:#93a4b3;--line:#33404c;--back:#14191e;--mark:#5fb4d6;--bad:#ff7b6b}}
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:76rem;padding:0 1rem;color:var(--text);background:var(--back)}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}table{border-collapse:collapse;width:100%;font-size:13px}
th,td{text-align:left;padding:.25rem .6rem;border-bottom:1px solid var(--line);vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}small{color:var(--soft)}tr.bad td{color:var(--bad)}
svg{width:100%;height:auto}svg text{fill:var(--soft);font-size:11px}.grid{stroke:var(--line)}.curve{fill:none;stroke:var(--mark);stroke-width:1.5}
.dot{fill:var(--mark)}.off{fill:var(--bad)}.limit{stroke:var(--bad);stroke-dasharray:4 3}pre{white-space:pre-wrap;font-size:12px}";

/// Size of the plot, and what lies beside it.
const SIZE: [f64; 2] = [960.0, 300.0];
const MARGINS: [f64; 4] = [12.0, 12.0, 28.0, 52.0];

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A number as it was formatted; a dash for what is none.
fn finite_or_dash(value: f64, text: String) -> String {
    if value.is_finite() { text } else { "–".to_owned() }
}

/// Renders comparisons, under their shapes where there are several.
pub fn render(compared: &[(Shape, Comparison)]) -> String {
    let title = escape(compared.first().map_or("", |(_, comparison)| &comparison.model));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title><style>{STYLE}</style>\n"
    );
    for (shape, comparison) in compared {
        let shape = if compared.len() > 1 { format!(": {}", shapes::describe(shape)) } else { String::new() };
        page += &section(&format!("{title}{}", escape(&shape)), comparison);
    }
    page + "</html>\n"
}

fn section(title: &str, comparison: &Comparison) -> String {
    let mut page = format!(
        "<h1>{title}</h1>\n<p>{} against the host's f32, {} samples</p>\n",
        escape(&comparison.subject),
        comparison.samples,
    );
    let tables = [
        ("Outputs", Some(&comparison.outputs)),
        ("Against the reference", comparison.reference.as_ref()),
        ("The host's f32 against the reference", comparison.host_reference.as_ref()),
    ];
    // Writing into a string cannot fail.
    for (title, scores) in tables.into_iter().filter_map(|(title, scores)| Some((title, scores?))) {
        let _ = writeln!(page, "<h2>{title}</h2>\n<pre>{}</pre>", escape(&scores.text()));
    }
    let layers: Vec<(usize, &Layer)> =
        comparison.layers.iter().enumerate().filter(|(_, layer)| layer.error.is_some()).collect();
    if layers.is_empty() {
        return page;
    }
    page += "<h2>Relative error of each stored value</h2>\n";
    page += &plot(&layers, comparison.threshold);
    for (what, layer) in
        [("first beyond the threshold", comparison.first()), ("steepest growth", comparison.steepest())]
    {
        if let Some(layer) = layer {
            let _ =
                writeln!(page, "<p>{what}: <b>{}</b> <small>{}</small></p>", escape(&layer.node), escape(&layer.value));
        }
    }
    page += "<table><tr><th class=n>#<th>node<th>value<th>stored<th class=n>relative<th class=n>growth<th class=n>cosine\
             <th class=n>largest |x|<th>notes</tr>\n";
    for (number, layer) in layers {
        let Some(error) = &layer.error else { continue };
        let bad = layer.relative().is_some_and(|relative| relative > comparison.threshold);
        let mut notes: Vec<String> = layer.range.trouble().into_iter().collect();
        if error.unfinite > 0 {
            notes.insert(0, format!("{} of {} not finite", error.unfinite, error.elements));
        }
        let _ = writeln!(
            page,
            "<tr{}><td class=n>{number}<td>{} <small>{}</small><td>{}<td>{}<td class=n>{}<td class=n>{}<td class=n>{}\
             <td class=n>{:.3e}<td><small>{}</small></tr>",
            if bad { " class=bad" } else { "" },
            escape(&layer.node),
            escape(&layer.sources.join(", ")),
            escape(&layer.value),
            layer.stored.map_or("", DType::name),
            finite_or_dash(error.relative(), format!("{:.2e}", error.relative())),
            layer
                .growth()
                .filter(|growth| growth.is_finite())
                .map_or("–".to_owned(), |growth| format!("{growth:.1}")),
            finite_or_dash(error.cosine(), format!("{:.6}", error.cosine())),
            layer.range.largest(),
            escape(&notes.join("; ")),
        );
    }
    page + "</table>\n"
}

/// Relative errors on a logarithmic scale, layer by layer; values that are not finite at the top.
fn plot(layers: &[(usize, &Layer)], threshold: f64) -> String {
    let errors: Vec<f64> = layers.iter().filter_map(|(_, layer)| layer.relative()).collect();
    let finite = || errors.iter().copied().filter(|error| error.is_finite() && *error > 0.0);
    let low = finite().chain([threshold]).fold(f64::INFINITY, f64::min).log10().floor().max(-9.0);
    let high = finite().chain([threshold]).fold(f64::NEG_INFINITY, f64::max).log10().ceil().max(low + 1.0);
    let [top, right, bottom, left] = MARGINS;
    let (width, height) = (SIZE[0] - left - right, SIZE[1] - top - bottom);
    let y = |error: f64| {
        let level = if error.is_finite() { error.max(1e-300).log10().clamp(low, high) } else { high };
        top + height * (high - level) / (high - low)
    };
    let x = |number: usize| left + width * number as f64 / (layers.len().max(2) - 1) as f64;
    let mut plot = format!("<svg viewBox=\"0 0 {} {}\" role=\"img\">\n", SIZE[0], SIZE[1]);
    // Writing into a string cannot fail.
    for exponent in low as i32..=high as i32 {
        let y = y(10f64.powi(exponent));
        let (end, label) = (SIZE[0] - right, left - 6.0);
        let _ = writeln!(
            plot,
            "<line class=grid x1={left} x2={end} y1={y:.1} y2={y:.1} /><text x={label} y={:.1} text-anchor=end>1e{exponent}</text>",
            y + 4.0
        );
    }
    let limit = y(threshold);
    let _ = writeln!(plot, "<line class=limit x1={left} x2={} y1={limit:.1} y2={limit:.1} />", SIZE[0] - right);
    let points: Vec<String> =
        errors.iter().enumerate().map(|(n, &error)| format!("{:.1},{:.1}", x(n), y(error))).collect();
    let _ = writeln!(plot, "<polyline class=curve points=\"{}\" />", points.join(" "));
    for (place, ((number, layer), &error)) in layers.iter().zip(&errors).enumerate() {
        let class = if error > threshold { "off" } else { "dot" };
        let said = if error.is_finite() { format!("{error:.2e}") } else { "not finite".to_owned() };
        let _ = writeln!(
            plot,
            "<circle class={class} cx={:.1} cy={:.1} r=3><title>{number}: {} – {said}</title></circle>",
            x(place),
            y(error),
            escape(&layer.node)
        );
    }
    let _ = writeln!(plot, "<text x={left} y={}>layers, first to last</text>\n</svg>", SIZE[1] - 8.0);
    plot
}

#[cfg(test)]
mod tests {
    use super::*;
    use floe_accuracy::{
        headroom::Range,
        metrics::{Bound, Error},
        scores::Scores,
    };

    #[test]
    fn names_cannot_inject_markup_and_layers_are_drawn() {
        let layer = |node: &str, found: f64| Layer {
            node: node.to_owned(),
            sources: vec!["<i>".to_owned()],
            value: "<b>".to_owned(),
            stored: Some(DType::F16),
            error: Some(Error::of(&[1.0], &[found], Bound::default())),
            incoming: 0.0,
            range: Range::default(),
        };
        let comparison = Comparison {
            model: "<script>".to_owned(),
            subject: "simulated".to_owned(),
            samples: 1,
            outputs: Scores::new(Bound::default()),
            reference: None,
            host_reference: None,
            layers: vec![layer("good", 1.0001), layer("bad", f64::NAN)],
            threshold: 1e-2,
        };
        let page = render(&[(Shape::new(), comparison)]);
        for markup in ["<script", "<i>", "<title><", "NaN"] {
            assert!(!page.contains(markup), "{markup}");
        }
        assert!(page.contains("&lt;b&gt;") && page.contains("class=off") && page.contains("prefers-color-scheme:dark"));
        assert_eq!(page.matches("<circle").count(), 2);
        assert!(page.contains("1 of 1 not finite"));
    }
}
