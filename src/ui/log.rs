//! Warnings of the libraries, in the form of the program's own.

use std::fmt;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// An entry as `coracle: warning: SENTENCE`, without its module and its spans.
pub(super) struct Sentence;

impl<S, N> FormatEvent<S, N> for Sentence
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let level = event.metadata().level();
        let kind = if *level == Level::ERROR { "error" } else { "warning" };
        write!(writer, "coracle: {kind}: ")?;
        context.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Seek as _};
    use std::sync::Mutex;

    #[test]
    fn a_warning_of_a_library_has_the_form_of_the_programs_own() {
        let mut file = tempfile::tempfile().unwrap();
        let log = tracing_subscriber::fmt().with_ansi(false).event_format(Sentence);
        let log = log.with_writer(Mutex::new(file.try_clone().unwrap())).finish();
        tracing::subscriber::with_default(log, || {
            tracing::warn!("the store is elsewhere now");
            tracing::warn!(file = "x.conf", "an unknown key is ignored");
            tracing::error!("a thread has ended");
        });
        let mut said = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut said).unwrap();
        assert_eq!(
            said,
            "coracle: warning: the store is elsewhere now\n\
             coracle: warning: an unknown key is ignored file=\"x.conf\"\n\
             coracle: error: a thread has ended\n"
        );
    }
}
