//! The source of a kernel, printed when it is first read: of many candidates few are compiled.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

/// A source. Reading it prints it, once for all of its clones.
#[derive(Clone)]
pub struct Text(Arc<LazyLock<String, Print>>);

type Print = Box<dyn FnOnce() -> String + Send>;

impl Text {
    /// What `print` returns.
    pub fn printed_by(print: impl FnOnce() -> String + Send + 'static) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(print))))
    }

    /// This text behind another.
    #[must_use]
    pub fn behind(self, first: String) -> Self {
        Self::printed_by(move || first + &self)
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::printed_by(|| text)
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::Text;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_text_is_printed_once_and_only_when_it_is_read() {
        let count = Arc::new(AtomicU32::new(0));
        let counted = count.clone();
        let text = Text::printed_by(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            "b".to_owned()
        });
        let longer = text.clone().behind("a".to_owned());
        assert_eq!(count.load(Ordering::Relaxed), 0);
        assert_eq!((&*longer, &*text, &*longer.clone()), ("ab", "b", "ab"));
        assert_eq!(count.load(Ordering::Relaxed), 1);
    }
}
