//! Trial.
#![allow(missing_docs, clippy::all, reason = "trial")]
use leyden_kernels::{Cpu, Tier};
use leyden_speech::*;
use std::time::Instant;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let cpu = Cpu::new(Tier::best(), 2).unwrap();
    let p = Precision::NAMES.iter().find(|r| r.0 == a[3]).unwrap().1;
    let t = Instant::now();
    let model = Whisper::load(&cpu, a[1].as_ref(), p).unwrap_or_else(|e| panic!("{e}"));
    println!("load {:?} {} MiB", t.elapsed(), model.memory().0 >> 20);
    let t = Instant::now();
    let audio = Audio::open(a[2].as_ref(), &AudioLimits::default()).unwrap_or_else(|e| panic!("{e}"));
    println!("audio {:?} {} s", t.elapsed(), audio.seconds());
    let o = Options {
        timestamps: match a[4].as_str() {
            "word" => Timestamps::Word,
            "none" => Timestamps::None,
            _ => Timestamps::Segment,
        },
        ..Options::default()
    };
    for _ in 0..a.get(5).map_or(1, |n| n.parse().unwrap()) {
        let t = Instant::now();
        let mel = Mel::new(&cpu, audio.samples(), model.network().config().bins);
        let tm = t.elapsed();
        let t = Instant::now();
        let enc = model.network().encode(&cpu, mel.window(0, 3000)).unwrap();
        let te = t.elapsed();
        let t = Instant::now();
        let r = model.transcribe(&cpu, &audio, &o, &mut |_| true).unwrap_or_else(|e| panic!("{e}"));
        let d = t.elapsed();
        println!(
            "mel {tm:?} encode {te:?} {} whole {d:?} tokens {} RTF {:.4}",
            enc[0],
            r.n_tokens,
            d.as_secs_f64() / audio.seconds()
        );
        if a.get(5).is_none() {
            print!(
                "{}",
                r.in_format(Format::Vtt, if a[4] == "word" { Cues::Words } else { Cues::Segments }, false)
            );
            println!("{}", r.text);
        }
    }
}
