//! Transcripts as files: plain text, JSON, SRT and WebVTT.

use crate::languages::language_name;
use crate::transcript::{Segment, Transcription};
use serde_json::{Value, json};
use std::fmt::Write;

/// Format of a transcript.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Object with the text.
    #[default]
    Json,
    /// Text alone.
    Text,
    /// Subtitles in SubRip's format.
    Srt,
    /// Subtitles in WebVTT.
    Vtt,
    /// Object with text, language, duration, segments and words, as OpenAI's endpoint returns it.
    VerboseJson,
}

/// Unit of subtitles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cues {
    /// Segments.
    #[default]
    Segments,
    /// Words.
    Words,
}

impl Format {
    /// Names of all formats.
    pub const NAMES: [(&'static str, Format); 5] = [
        ("json", Format::Json),
        ("text", Format::Text),
        ("srt", Format::Srt),
        ("vtt", Format::Vtt),
        ("verbose_json", Format::VerboseJson),
    ];

    /// Returns the format with a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Format> {
        Format::NAMES.iter().find(|row| row.0 == name).map(|row| row.1)
    }

    /// Returns the media type.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Format::Json | Format::VerboseJson => "application/json",
            Format::Text => "text/plain; charset=utf-8",
            Format::Srt => "application/x-subrip; charset=utf-8",
            Format::Vtt => "text/vtt; charset=utf-8",
        }
    }
}

impl Transcription {
    /// Returns the transcript in a format, with a newline at the end. `translated` is true for a translation.
    #[must_use]
    pub fn in_format(&self, format: Format, cues: Cues, translated: bool) -> String {
        match format {
            Format::Json => format!("{}\n", json!({ "text": self.text })),
            Format::Text => format!("{}\n", self.text),
            Format::Srt => self.subtitles(cues, ','),
            Format::Vtt => format!("WEBVTT\n\n{}", self.subtitles(cues, '.')),
            Format::VerboseJson => format!("{}\n", self.verbose(translated, true)),
        }
    }

    /// Returns the document of OpenAI's `verbose_json`; `segments` is false to leave them out.
    #[must_use]
    pub fn verbose(&self, translated: bool, segments: bool) -> Value {
        let task = if translated { "translate" } else { "transcribe" };
        let mut document = json!({
            "task": task,
            "language": language_name(&self.language),
            "duration": self.duration,
            "text": self.text,
        });
        let words: Vec<_> = self.segments.iter().flat_map(|segment| &segment.words).collect();
        if !words.is_empty() {
            let shown = |w: &&crate::Word| json!({ "word": w.word.trim(), "start": w.start, "end": w.end });
            document["words"] = words.iter().map(shown).collect();
        }
        if segments {
            document["segments"] = self.segments.iter().map(shown).collect();
        }
        document
    }

    fn subtitles(&self, cues: Cues, point: char) -> String {
        let mut out = String::new();
        let mut cue = 0;
        let mut write = |start: f64, end: f64, text: &str| {
            cue += 1;
            let number = if point == ',' { format!("{cue}\n") } else { String::new() };
            // A mark of times within a text would end it.
            let text = text.trim().replace("-->", "->");
            let _ = write!(out, "{number}{} --> {}\n{text}\n\n", clock(start, point), clock(end, point));
        };
        for segment in &self.segments {
            match cues {
                Cues::Words if !segment.words.is_empty() => {
                    segment.words.iter().for_each(|word| write(word.start, word.end, &word.word));
                }
                Cues::Words | Cues::Segments => write(segment.start, segment.end, &segment.text),
            }
        }
        out
    }
}

/// Returns a segment as OpenAI's `verbose_json` has it.
fn shown(segment: &Segment) -> Value {
    json!({
        "id": segment.id, "seek": segment.seek, "start": segment.start, "end": segment.end, "text": segment.text,
        "tokens": segment.tokens, "temperature": segment.temperature, "avg_logprob": segment.avg_logprob,
        "compression_ratio": segment.compression_ratio, "no_speech_prob": segment.no_speech_prob
    })
}

/// Returns a time as hours, minutes, seconds and thousandths.
fn clock(seconds: f64, point: char) -> String {
    let all = (seconds * 1000.0).round() as u64;
    let (hours, minutes, seconds) = (all / 3_600_000, all / 60_000 % 60, all / 1000 % 60);
    format!("{hours:02}:{minutes:02}:{seconds:02}{point}{:03}", all % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transcription() -> Transcription {
        let segment = |id, start, end, text: &str| Segment {
            id,
            seek: 0,
            start,
            end,
            text: text.into(),
            tokens: vec![1],
            temperature: 0.0,
            avg_logprob: -0.5,
            compression_ratio: 1.0,
            no_speech_prob: 0.0,
            words: Vec::new(),
        };
        Transcription {
            language: "en".into(),
            duration: 3700.0,
            text: "One --> two. Three.".into(),
            segments: vec![segment(0, 0.0, 1.5, " One --> two."), segment(1, 3661.25, 3662.0, " Three.")],
            n_tokens: 2,
        }
    }

    #[test]
    fn formats_are_written_as_their_readers_expect() {
        let all = |format| transcription().in_format(format, Cues::Segments, false);
        let srt =
            "1\n00:00:00,000 --> 00:00:01,500\nOne -> two.\n\n2\n01:01:01,250 --> 01:01:02,000\nThree.\n\n";
        assert_eq!(all(Format::Srt), srt);
        let vtt = "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nOne -> two.\n\n01:01:01.250 --> 01:01:02.000\nThree.\n\n";
        assert_eq!(all(Format::Vtt), vtt);
        assert_eq!(all(Format::Json), "{\"text\":\"One --> two. Three.\"}\n");
        assert_eq!(all(Format::Text), "One --> two. Three.\n");
        let verbose: Value = serde_json::from_str(&all(Format::VerboseJson)).unwrap();
        assert_eq!(
            (&verbose["language"], &verbose["segments"][1]["start"]),
            (&json!("english"), &json!(3661.25))
        );
    }
}
