//! The web page at `/`: a document, a style and a script, all from here. It reads the API's paths and nothing else.
//!
//! What the page shows comes from subscribers' devices too: names of networks, identities, hardware addresses. The
//! script puts it into the document as text only, and the policy below has browsers run nothing but the script.

use super::tables::Answer;

/// Headers of every response: what a browser may do with it.
pub const HEADERS: [(&str, &str); 5] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
];

/// Paths and parts of the page.
const PARTS: [(&str, &str, &str); 3] = [
    ("/", "text/html; charset=utf-8", include_str!("page/page.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("page/page.css")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("page/page.js")),
];

/// The part of the page at that path, if it is one.
pub fn part(path: &str) -> Option<Answer> {
    let (_, media, body) = PARTS.iter().find(|(known, ..)| *known == path)?;
    Some(Answer { status: 200, media, body: (*body).to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_no_way_for_text_to_become_markup() {
        let [html, css, js] = PARTS.map(|(.., body)| body);
        for way in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
            "setAttribute(\"on",
        ] {
            assert!(!js.contains(way), "{way}");
        }
        for inline in ["<script>", "<style", " style=", " onclick", "javascript:"] {
            assert!(!html.contains(inline), "{inline}");
        }
        for all in [html, css, js] {
            let elsewhere = all.replace("http://www.w3.org/2000/svg", "");
            assert!(!elsewhere.contains("http://") && !elsewhere.contains("https://") && !elsewhere.contains("url("));
        }
    }
}
