//! Compressed audio by the library symphonia: FLAC, MP3, Ogg Vorbis, AAC in MP4 or ADTS.
//!
//! The library is safe code, but a damaged file may still panic in it: a panic is an error of the file.

use super::mixer::{AudioLimits, Mixer, SampleForm};
use crate::error::Error;
use std::io::{Cursor, ErrorKind as IoKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use symphonia::core::codecs::audio::{AudioDecoder, AudioDecoderOptions};
use symphonia::core::errors::Error as Failure;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::{FormatOptions, FormatReader, TrackType};
use symphonia::core::io::MediaSourceStream;
use symphonia::core::meta::MetadataOptions;

/// Formats that are read, for messages.
const READ: &str = "WAV, FLAC, MP3, Ogg Vorbis, and AAC in MP4 are read";

/// Number of damaged packets in a row after which a file is refused.
const MAX_DAMAGED: usize = 50;

/// Decodes a compressed file.
///
/// # Errors
/// The format is unknown, the file is damaged, or a limit is exceeded.
pub(super) fn decode(bytes: Vec<u8>, limits: &AudioLimits) -> Result<Vec<f32>, Error> {
    let work = AssertUnwindSafe(|| decode_file(bytes, limits));
    catch_unwind(work).unwrap_or_else(|_| Err(Error::audio("the file is damaged: its decoder failed")))
}

fn decode_file(bytes: Vec<u8>, limits: &AudioLimits) -> Result<Vec<f32>, Error> {
    let stream = MediaSourceStream::new(Box::new(Cursor::new(bytes)), Default::default());
    let (format, meta) = (FormatOptions::default(), MetadataOptions::default());
    let mut reader = symphonia::default::get_probe()
        .probe(&Hint::new(), stream, format, meta)
        .map_err(|_| Error::audio(format!("no audio file of a known format; {READ}")))?;
    let track =
        reader.default_track(TrackType::Audio).ok_or_else(|| Error::audio("the file has no audio track"))?;
    let parameters = track.codec_params.as_ref().and_then(|known| known.audio());
    let parameters =
        parameters.ok_or_else(|| Error::audio("the audio track does not say how it is coded"))?;
    let mut decoder = symphonia::default::get_codecs()
        .make_audio_decoder(parameters, &AudioDecoderOptions::default())
        .map_err(|why| Error::audio(format!("the audio track cannot be decoded: {why}; {READ}")))?;
    let id = track.id;
    packets(&mut *reader, &mut *decoder, id, limits)
}

/// Decodes all packets of a track. A damaged packet is left out, unless many follow each other.
fn packets(
    reader: &mut dyn FormatReader,
    decoder: &mut dyn AudioDecoder,
    id: u32,
    limits: &AudioLimits,
) -> Result<Vec<f32>, Error> {
    let (mut mixer, mut block, mut damaged) = (None::<Mixer>, Vec::<f32>::new(), 0);
    loop {
        let packet = match reader.next_packet() {
            Ok(Some(packet)) => packet,
            Ok(None) => break,
            Err(Failure::IoError(error)) if error.kind() == IoKind::UnexpectedEof && mixer.is_some() => break,
            Err(why) => return Err(Error::audio(format!("the file is damaged: {why}"))),
        };
        if packet.track_id != id {
            continue;
        }
        let decoded = match decoder.decode(&packet) {
            Ok(decoded) => decoded,
            Err(Failure::DecodeError(why)) => {
                damaged += 1;
                if damaged > MAX_DAMAGED {
                    return Err(Error::audio(format!("the file is damaged: {why}")));
                }
                continue;
            }
            Err(why) => return Err(Error::audio(format!("the file is damaged: {why}"))),
        };
        damaged = 0;
        let spec = decoded.spec();
        let form = SampleForm::new(spec.rate(), spec.channels().count())?;
        let mixer = mixer.get_or_insert_with(|| Mixer::new(form, limits));
        if mixer.form != form {
            return Err(Error::audio("sample rate or channels change within the file"));
        }
        decoded.copy_to_vec_interleaved(&mut block);
        mixer.add(block.iter().copied())?;
    }
    Ok(mixer.map(Mixer::finish).unwrap_or_default())
}
