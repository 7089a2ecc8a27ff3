//! Quantities with units: 5 kg, 60 km/h, 21°C, 12 GB, 5 lbs., 9 m².

use super::context::{Context, Spoken};
use crate::numbers::Number;

/// Units with the names of one and more. Capitals matter.
const UNITS: &[(&str, &str, &str)] = &[
    ("%", "percent", "percent"),
    ("‰", "per mille", "per mille"),
    ("°C", "degree Celsius", "degrees Celsius"),
    ("°F", "degree Fahrenheit", "degrees Fahrenheit"),
    ("ºC", "degree Celsius", "degrees Celsius"),
    ("℃", "degree Celsius", "degrees Celsius"),
    ("℉", "degree Fahrenheit", "degrees Fahrenheit"),
    ("°", "degree", "degrees"),
    ("km", "kilometer", "kilometers"),
    ("cm", "centimeter", "centimeters"),
    ("mm", "millimeter", "millimeters"),
    ("nm", "nanometer", "nanometers"),
    ("µm", "micrometer", "micrometers"),
    ("μm", "micrometer", "micrometers"),
    ("m", "meter", "meters"),
    ("mi", "mile", "miles"),
    ("ft", "foot", "feet"),
    ("yd", "yard", "yards"),
    ("kg", "kilogram", "kilograms"),
    ("mg", "milligram", "milligrams"),
    ("g", "gram", "grams"),
    ("lb", "pound", "pounds"),
    ("lbs", "pound", "pounds"),
    ("oz", "ounce", "ounces"),
    ("l", "liter", "liters"),
    ("L", "liter", "liters"),
    ("ml", "milliliter", "milliliters"),
    ("mL", "milliliter", "milliliters"),
    ("gal", "gallon", "gallons"),
    ("s", "second", "seconds"),
    ("sec", "second", "seconds"),
    ("secs", "second", "seconds"),
    ("ms", "millisecond", "milliseconds"),
    ("µs", "microsecond", "microseconds"),
    ("μs", "microsecond", "microseconds"),
    ("ns", "nanosecond", "nanoseconds"),
    ("min", "minute", "minutes"),
    ("mins", "minute", "minutes"),
    ("h", "hour", "hours"),
    ("hr", "hour", "hours"),
    ("hrs", "hour", "hours"),
    ("yr", "year", "years"),
    ("yrs", "year", "years"),
    ("mph", "mile per hour", "miles per hour"),
    ("kph", "kilometer per hour", "kilometers per hour"),
    ("kmh", "kilometer per hour", "kilometers per hour"),
    ("rpm", "revolution per minute", "revolutions per minute"),
    ("fps", "frame per second", "frames per second"),
    ("bps", "bit per second", "bits per second"),
    ("kbps", "kilobit per second", "kilobits per second"),
    ("Mbps", "megabit per second", "megabits per second"),
    ("Gbps", "gigabit per second", "gigabits per second"),
    ("B", "byte", "bytes"),
    ("kB", "kilobyte", "kilobytes"),
    ("KB", "kilobyte", "kilobytes"),
    ("MB", "megabyte", "megabytes"),
    ("GB", "gigabyte", "gigabytes"),
    ("TB", "terabyte", "terabytes"),
    ("PB", "petabyte", "petabytes"),
    ("KiB", "kibibyte", "kibibytes"),
    ("MiB", "mebibyte", "mebibytes"),
    ("GiB", "gibibyte", "gibibytes"),
    ("TiB", "tebibyte", "tebibytes"),
    ("Hz", "hertz", "hertz"),
    ("kHz", "kilohertz", "kilohertz"),
    ("MHz", "megahertz", "megahertz"),
    ("GHz", "gigahertz", "gigahertz"),
    ("W", "watt", "watts"),
    ("kW", "kilowatt", "kilowatts"),
    ("MW", "megawatt", "megawatts"),
    ("GW", "gigawatt", "gigawatts"),
    ("Wh", "watt hour", "watt hours"),
    ("kWh", "kilowatt hour", "kilowatt hours"),
    ("MWh", "megawatt hour", "megawatt hours"),
    ("V", "volt", "volts"),
    ("kV", "kilovolt", "kilovolts"),
    ("mA", "milliamp", "milliamps"),
    ("mAh", "milliamp hour", "milliamp hours"),
    ("Ω", "ohm", "ohms"),
    ("J", "joule", "joules"),
    ("kJ", "kilojoule", "kilojoules"),
    ("cal", "calorie", "calories"),
    ("kcal", "kilocalorie", "kilocalories"),
    ("Pa", "pascal", "pascals"),
    ("kPa", "kilopascal", "kilopascals"),
    ("hPa", "hectopascal", "hectopascals"),
    ("psi", "pound per square inch", "pounds per square inch"),
    ("dB", "decibel", "decibels"),
    ("px", "pixel", "pixels"),
    ("pt", "point", "points"),
    ("ha", "hectare", "hectares"),
    ("hp", "horsepower", "horsepower"),
    ("pct", "percent", "percent"),
    ("bn", "billion", "billion"),
    ("mn", "million", "million"),
    ("M", "million", "million"),
    ("\"", "inch", "inches"),
];

/// Units that are also letters or words, and so count as units only directly behind the number.
const ATTACHED_ONLY: &[&str] = &["B", "M", "l", "s", "J", "pt", "\"", "V", "W", "h", "bn", "mn"];

/// Returns the names of one and more of a unit, of its square or cube, or of one unit per another.
fn names(text: &str) -> Option<[String; 2]> {
    if let Some((top, bottom)) = text.split_once('/') {
        let [one, many] = simple(top)?;
        let [per, _] = simple(bottom)?;
        return Some([format!("{one} per {per}"), format!("{many} per {per}")]);
    }
    simple(text)
}

fn simple(text: &str) -> Option<[String; 2]> {
    let (text, power) = match text
        .strip_suffix(['²', '2'])
        .filter(|text| matches!(*text, "m" | "km" | "cm" | "mm" | "ft" | "s" | "mi"))
    {
        Some(text) => (text, "square "),
        None => match text
            .strip_suffix(['³', '3'])
            .filter(|text| matches!(*text, "m" | "km" | "cm" | "mm" | "ft"))
        {
            Some(text) => (text, "cubic "),
            None => (text, ""),
        },
    };
    let (_, one, many) = UNITS.iter().find(|(unit, ..)| *unit == text)?;
    Some([format!("{power}{one}"), format!("{power}{many}")])
}

/// Returns number and unit of a text in which they are together.
fn together(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ',' | '-' | '+' | '±' | '–')))?;
    (end > 0 && text[..end].ends_with(|c: char| c.is_ascii_digit())).then(|| text.split_at(end))
}

pub(super) fn quantity(context: Context<'_>) -> Option<Spoken> {
    let core = context.core();
    let (number, unit, extra) = match together(core) {
        Some((number, unit)) => (number, unit, 0),
        None => (core, context.next(1, "").filter(|unit| !ATTACHED_ONLY.contains(unit))?, 1),
    };
    let names = names(unit)?;
    let spoken = count(number, &names)?.using(extra);
    let abbreviated = unit.len() > 1 && unit.bytes().all(|b| b.is_ascii_lowercase());
    Some(if abbreviated && context.has_stop(extra) { spoken.with_stop() } else { spoken })
}

/// Returns a number or a range of numbers with the fitting name.
fn count(number: &str, [one, many]: &[String; 2]) -> Option<Spoken> {
    if let Some(number) = Number::read(number) {
        let name = if number.is_one() { one } else { many };
        return Some(Spoken::words(&format!("{} {name}", number.words())));
    }
    let (from, to) = number.split_once(['-', '–']).filter(|(from, _)| !from.is_empty())?;
    let (from, to) = (Number::read(from)?, Number::read(to)?);
    Some(Spoken::words(&format!("{} to {} {many}", from.words(), to.words())))
}
