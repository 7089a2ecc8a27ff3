//! WAV files: PCM of 8, 16, 24 and 32 bits, floats of 32 and 64 bits, and both logarithmic 8-bit codes (ITU-T G.711).
//!
//! The bytes are untrusted: every length is compared with the bytes that are left.

use super::mixer::{AudioLimits, Mixer, SampleForm};
use crate::error::Error;

/// Frames that are converted at a time.
const BLOCK: usize = 4096;

/// Encoding of one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    U8,
    I16,
    I24,
    I32,
    F32,
    F64,
    ALaw,
    MuLaw,
}

impl Coding {
    /// Returns the coding of a format number and a number of bits.
    fn of(format: u16, bits: u16) -> Option<Coding> {
        Some(match (format, bits) {
            (1, 8) => Coding::U8,
            (1, 16) => Coding::I16,
            (1, 24) => Coding::I24,
            (1, 32) => Coding::I32,
            (3, 32) => Coding::F32,
            (3, 64) => Coding::F64,
            (6, 8) => Coding::ALaw,
            (7, 8) => Coding::MuLaw,
            _ => return None,
        })
    }

    fn bytes(self) -> usize {
        match self {
            Coding::U8 | Coding::ALaw | Coding::MuLaw => 1,
            Coding::I16 => 2,
            Coding::I24 => 3,
            Coding::I32 | Coding::F32 => 4,
            Coding::F64 => 8,
        }
    }

    /// Returns a sample between -1 and 1 from its bytes.
    fn sample(self, bytes: &[u8]) -> f32 {
        let four = |shift: u32| {
            let mut word = [0; 4];
            word[..bytes.len().min(4)].copy_from_slice(&bytes[..bytes.len().min(4)]);
            (i32::from_le_bytes(word) << shift) as f32 / 2_147_483_648.0
        };
        match self {
            Coding::U8 => (f32::from(bytes[0]) - 128.0) / 128.0,
            Coding::I16 => four(16),
            Coding::I24 => four(8),
            Coding::I32 => four(0),
            Coding::F32 => f32::from_le_bytes(bytes.try_into().unwrap_or_default()),
            Coding::F64 => f64::from_le_bytes(bytes.try_into().unwrap_or_default()) as f32,
            Coding::ALaw => f32::from(a_law(bytes[0])) / 32_768.0,
            Coding::MuLaw => f32::from(mu_law(bytes[0])) / 32_768.0,
        }
    }
}

/// Returns the 16-bit value of an A-law code.
fn a_law(code: u8) -> i16 {
    let code = code ^ 0x55;
    let (exponent, mantissa) = ((code >> 4) & 7, i16::from(code & 15));
    let size = match exponent {
        0 => (mantissa << 4) + 8,
        e => ((mantissa << 4) + 0x108) << (e - 1),
    };
    if code & 0x80 == 0 { -size } else { size }
}

/// Returns the 16-bit value of a mu-law code.
fn mu_law(code: u8) -> i16 {
    let code = !code;
    let (exponent, mantissa) = ((code >> 4) & 7, i16::from(code & 15));
    let size = (((mantissa << 3) + 0x84) << exponent) - 0x84;
    if code & 0x80 == 0 { size } else { -size }
}

/// Returns true for the beginning of a WAV file.
pub(super) fn is_wav(bytes: &[u8]) -> bool {
    bytes.len() >= 12 && matches!(&bytes[..4], b"RIFF" | b"RF64") && &bytes[8..12] == b"WAVE"
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Reads the chunk `fmt `.
fn format(chunk: &[u8]) -> Result<(Coding, SampleForm), Error> {
    let short =
        || Error::audio(format!("{} bytes, at least 16 are needed", chunk.len())).item("chunk `fmt `");
    let (Some(mut format), Some(channels), Some(rate)) =
        (u16_at(chunk, 0), u16_at(chunk, 2), u32_at(chunk, 4))
    else {
        return Err(short());
    };
    let bits = u16_at(chunk, 14).ok_or_else(short)?;
    if format == 0xfffe {
        // Extensible: the format is the beginning of an identifier.
        format = u16_at(chunk, 24).ok_or_else(|| Error::audio("no subformat").item("chunk `fmt `"))?;
    }
    let coding = Coding::of(format, bits).ok_or_else(|| {
        let message = format!(
            "format {format} with {bits} bits; PCM of 8 to 32 bits, floats, A-law and mu-law are read"
        );
        Error::audio(message).item("chunk `fmt `")
    })?;
    Ok((coding, SampleForm::new(rate, usize::from(channels))?))
}

/// Decodes a WAV file.
///
/// # Errors
/// A chunk is damaged or missing, or a limit is exceeded.
pub(super) fn decode(bytes: &[u8], limits: &AudioLimits) -> Result<Vec<f32>, Error> {
    let (mut at, mut known) = (12, None);
    while let (Some(name), Some(size)) = (bytes.get(at..at + 4), u32_at(bytes, at + 4)) {
        let body = &bytes[at + 8..];
        let size = size as usize;
        if name == b"data" {
            let Some((coding, form)) = known else {
                return Err(Error::audio("it comes before `fmt `").item("chunk `data`"));
            };
            // A program that wrote into a pipe could not know the size.
            let unknown = size == u32::MAX as usize || (size == 0 && bytes.len() == at + 8 + body.len());
            if !unknown && size > body.len() {
                let message =
                    format!("the file ends early: {size} bytes are announced, {} are left", body.len());
                return Err(Error::audio(message).item("chunk `data`"));
            }
            return samples(if unknown { body } else { &body[..size] }, coding, form, limits);
        }
        let chunk = body.get(..size).ok_or_else(|| {
            let message = format!("the file ends early: {size} bytes are announced, {} are left", body.len());
            Error::audio(message).item(format!("chunk `{}`", String::from_utf8_lossy(name)))
        })?;
        if name == b"fmt " {
            known = Some(format(chunk)?);
        }
        // Chunks have even lengths.
        at = (at + 8 + size).next_multiple_of(2);
    }
    Err(Error::audio("the file has no chunk `data`"))
}

fn samples(data: &[u8], coding: Coding, form: SampleForm, limits: &AudioLimits) -> Result<Vec<f32>, Error> {
    let width = coding.bytes();
    let frame = width * form.channels;
    let mut mixer = Mixer::new(form, limits);
    for block in data[..data.len() / frame * frame].chunks(BLOCK * frame) {
        mixer.add(block.chunks_exact(width).map(|bytes| coding.sample(bytes)))?;
    }
    Ok(mixer.finish())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a WAV file with this data.
    pub(crate) fn wav(format: u16, bits: u16, rate: u32, channels: u16, data: &[u8]) -> Vec<u8> {
        let mut out = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0".to_vec();
        out.extend(format.to_le_bytes());
        out.extend(channels.to_le_bytes());
        out.extend(rate.to_le_bytes());
        out.extend((rate * u32::from(channels) * u32::from(bits) / 8).to_le_bytes());
        out.extend((channels * bits / 8).to_le_bytes());
        out.extend(bits.to_le_bytes());
        out.extend(b"data");
        out.extend((data.len() as u32).to_le_bytes());
        out.extend(data);
        out
    }

    fn decoded(file: &[u8]) -> Vec<f32> {
        decode(file, &AudioLimits::default()).unwrap()
    }

    #[test]
    fn wav_codings_give_the_same_values() {
        let want = [0.0, 0.5, -0.5, -1.0];
        let of = |bytes: Vec<Vec<u8>>| bytes.concat();
        let pcm = |bits: u32| {
            let value = |x: &f32| ((f64::from(*x) * f64::from(1_u32 << (bits - 1))) as i32).to_le_bytes();
            of(want.iter().map(|x| value(x)[..bits as usize / 8].to_vec()).collect())
        };
        let eight: Vec<u8> = want.iter().map(|x| (x * 128.0 + 128.0) as u8).collect();
        let floats = of(want.iter().map(|x| x.to_le_bytes().to_vec()).collect());
        let doubles = of(want.iter().map(|x| f64::from(*x).to_le_bytes().to_vec()).collect());
        let long = of(want
            .iter()
            .map(|x| ((f64::from(*x) * 2_147_483_648.0) as i32).to_le_bytes().to_vec())
            .collect());
        let files = [
            (1, 8, eight),
            (1, 16, pcm(16)),
            (1, 24, pcm(24)),
            (1, 32, long),
            (3, 32, floats),
            (3, 64, doubles),
        ];
        for (format, bits, data) in files {
            assert_eq!(decoded(&wav(format, bits, 16_000, 1, &data)), want, "{format} {bits}");
        }
        // Values of G.711's tables.
        assert_eq!([a_law(0xd5), a_law(0x55), a_law(0xaa), a_law(0x2a)], [8, -8, 32_256, -32_256]);
        assert_eq!([mu_law(0xff), mu_law(0x00), mu_law(0x80)], [0, -32_124, 32_124]);
    }

    #[test]
    fn wav_channels_are_mixed_and_streamed_sizes_are_read() {
        let data: Vec<u8> = [16_384_i16, -16_384, 16_384, 0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let mut file = wav(1, 16, 16_000, 2, &data);
        assert_eq!(decoded(&file), [0.0, 0.25]);
        file[40..44].fill(0xff);
        assert_eq!(decoded(&file), [0.0, 0.25]);
    }

    #[test]
    fn wav_damage_is_named() {
        let good = wav(1, 16, 16_000, 1, &[0; 64]);
        let cut = &good[..good.len() - 10];
        let limits = AudioLimits::default();
        let error = |file: &[u8]| decode(file, &limits).unwrap_err().to_string();
        assert_eq!(error(cut), "chunk `data`: the file ends early: 64 bytes are announced, 54 are left");
        assert!(error(&wav(2, 4, 16_000, 1, &[])).starts_with("chunk `fmt `: format 2 with 4 bits"));
        assert!(error(&wav(1, 16, 0, 1, &[0; 8])).starts_with("sample rate: 0 samples"));
        assert!(error(&wav(1, 16, 16_000, 0, &[0; 8])).starts_with("channels: 0 channels"));
        assert_eq!(error(&good[..36]), "the file has no chunk `data`");
        assert!(error(&good[..20]).starts_with("chunk `fmt `: the file ends early"));
        let limits = AudioLimits { seconds: 1, ..limits };
        let long = decode(&wav(1, 16, 16_000, 1, &[0; 40_000]), &limits).unwrap_err();
        assert_eq!(long.to_string(), "the audio is longer than 1 s, which is the limit");
    }
}
