//! The parsers of text from outside: the cases in `testdata/parse`, and what must hold for any
//! bytes at all.

mod fixture;

use std::fmt::{Debug, Write};

use walras_core::parse::{self, ParseError, Quantity};
use walras_core::rng::Rng;
use walras_core::units::Millicores;

/// What a parser made of a text: anything that can be shown, or an error.
type Outcome = Result<Box<dyn Debug>, ParseError>;

struct Parser {
    name: &'static str,
    run: fn(&[u8]) -> Outcome,
}

const PARSERS: [Parser; 18] = [
    Parser { name: "cpu_stat_v2", run: |text| show(parse::cpu_stat_v2(text)) },
    Parser { name: "cpu_stat_v1", run: |text| show(two_files(text, parse::cpu_stat_v1)) },
    Parser { name: "cpu_max", run: |text| show(with_limit(parse::cpu_max(text))) },
    Parser { name: "cpu_max_v1", run: |text| show(with_limit(two_files(text, parse::cpu_max_v1))) },
    Parser { name: "cpu_max_burst", run: |text| show(parse::cpu_max_burst(text)) },
    Parser { name: "cpu_weight", run: |text| show(parse::cpu_weight(text)) },
    Parser { name: "cpu_shares", run: |text| show(parse::cpu_shares(text)) },
    Parser { name: "cpu_pressure", run: |text| show(parse::cpu_pressure(text)) },
    Parser { name: "memory_pressure", run: |text| show(parse::memory_pressure(text)) },
    Parser { name: "memory_current", run: |text| show(parse::memory_current(text)) },
    Parser { name: "memory_max", run: |text| show(parse::memory_max(text)) },
    Parser { name: "memory_high", run: |text| show(parse::memory_high(text)) },
    Parser { name: "memory_stat", run: |text| show(parse::memory_stat(text)) },
    Parser { name: "memory_events", run: |text| show(parse::memory_events(text)) },
    Parser { name: "memory_usage_v1", run: |text| show(parse::memory_usage_v1(text)) },
    Parser { name: "memory_limit_v1", run: |text| show(parse::memory_limit_v1(text)) },
    Parser { name: "quantity", run: |text| show(parse::quantity(text).map(conversions)) },
    Parser { name: "quantity_display", run: |text| show(parse::quantity(text).map(canonical)) },
];

const FIXTURES: [&str; 5] = [
    include_str!("../testdata/parse/cpu_stat.txt"),
    include_str!("../testdata/parse/cpu_max.txt"),
    include_str!("../testdata/parse/pressure.txt"),
    include_str!("../testdata/parse/memory.txt"),
    include_str!("../testdata/parse/quantity.txt"),
];

/// Runs every case of a fixture. A kernel file must read the same with and without the newline at
/// its end; each line of a quantity case is a text of its own.
fn check(fixture: &str) {
    for case in fixture::read(fixture) {
        let actual = if case.kind == "quantity" {
            case.input.lines().map(|line| show_quantity(line) + "\n").collect()
        } else {
            let known = PARSERS.iter().find(|known| known.name == case.kind);
            let run = known.expect("a known parser").run;
            let without_newline = case.input.strip_suffix('\n').unwrap_or(&case.input);
            let actual = show_outcome(run(case.input.as_bytes()));
            let again = show_outcome(run(without_newline.as_bytes()));
            assert_eq!(again, actual, "{} {}", case.kind, case.name);
            actual
        };
        fixture::compare(&case, &actual);
    }
}

fn show<T: Debug + 'static>(result: Result<T, ParseError>) -> Outcome {
    result.map(|value| Box::new(value) as Box<dyn Debug>)
}

fn show_outcome(outcome: Outcome) -> String {
    match outcome {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("error: {error}"),
    }
}

fn show_quantity(text: &str) -> String {
    let quantity = match parse::quantity(text.as_bytes()) {
        Ok(quantity) => quantity,
        Err(error) => return error.to_string(),
    };
    let mut shown = format!("{quantity} | ");
    match (quantity.millicores_exact(), quantity.millicores_ceil()) {
        (Some(exact), ceil) => {
            assert_eq!(ceil, Ok(exact), "{text}");
            write!(shown, "{exact}").expect("a string takes all text");
        }
        (None, Ok(ceil)) => write!(shown, "~{ceil}").expect("a string takes all text"),
        (None, Err(_)) => shown.push_str("too much"),
    }
    let bytes = quantity.bytes_ceil();
    let mark = if quantity.bytes_exact() == Some(bytes) { "" } else { "~" };
    shown + " | " + mark + &bytes.to_string()
}

/// Applies a parser of two files to a text in which a line `--` stands between them.
fn two_files<T>(
    text: &[u8],
    parser: fn(&[u8], &[u8]) -> Result<T, ParseError>,
) -> Result<T, ParseError> {
    let end = if text.starts_with(b"--") {
        Some(0)
    } else {
        text.windows(3).position(|window| window == b"\n--").map(|newline| newline + 1)
    };
    let (first, rest) = text.split_at(end.unwrap_or(text.len()));
    let second = rest.strip_prefix(b"--\n").unwrap_or_default();
    parser(first, second)
}

fn with_limit(
    max: Result<parse::CpuMax, ParseError>,
) -> Result<(parse::CpuMax, Option<Millicores>), ParseError> {
    max.map(|max| (max, max.limit_floor()))
}

fn conversions(quantity: Quantity) -> impl Debug {
    let cpu = (quantity.millicores_ceil(), quantity.millicores_exact());
    (cpu, quantity.bytes_ceil(), quantity.bytes_exact())
}

/// The canonical text, after checking that it reads as the same quantity again.
fn canonical(quantity: Quantity) -> String {
    let text = quantity.to_string();
    assert_eq!(parse::quantity(text.as_bytes()), Ok(quantity), "{text}");
    text
}

#[test]
fn the_cpu_stat_cases_hold() {
    check(FIXTURES[0]);
}

#[test]
fn the_quota_and_weight_cases_hold() {
    check(FIXTURES[1]);
}

#[test]
fn the_pressure_cases_hold() {
    check(FIXTURES[2]);
}

#[test]
fn the_memory_cases_hold() {
    check(FIXTURES[3]);
}

#[test]
fn the_quantity_cases_hold() {
    check(FIXTURES[4]);
}

#[test]
fn cpu_is_accepted_up_to_its_limit_and_no_further() {
    let limit = Millicores::LIMIT;
    let read = |text: String| parse::quantity(text.as_bytes()).expect("a quantity");
    assert_eq!(read(limit.to_string()).millicores_ceil(), Ok(limit));
    assert_eq!(read(limit.to_string()).millicores_exact(), Some(limit));
    let just_above = read(format!("{}.001m", limit.get()));
    assert_eq!(just_above.millicores_exact(), None);
    assert_eq!(
        just_above.millicores_ceil().expect_err("above the limit").to_string(),
        format!("{}001u cores are above the largest CPU accepted, {limit}", limit.get())
    );
    let one_above = read(format!("{}m", limit.get() + 1));
    assert_eq!(one_above.millicores_exact(), None);
    assert_eq!(one_above.millicores_ceil(), Err(ParseError::TooMuchCpu { cores: one_above }));
    // As nano-units this fits into 128 bits, as thousandths it does not fit into 64.
    let largest = Quantity::MAX;
    assert_eq!(largest.millicores_ceil(), Err(ParseError::TooMuchCpu { cores: largest }));
}

#[test]
fn space_at_the_end_is_no_value() {
    let missing = ParseError::Missing { file: "cpu.max", key: "period" };
    assert_eq!(parse::cpu_max(b"50000 \n"), Err(missing));
    let shown = |text: &[u8]| parse::quantity(text).expect_err("white space").to_string();
    assert_eq!(shown(b"1 "), "the quantity \"1 \" contains white space");
    assert_eq!(shown(b"1\n"), "the quantity \"1\\n\" contains white space");
}

#[test]
fn bytes_that_are_no_text_are_shown_as_far_as_they_go() {
    let error = |text: &[u8]| parse::memory_current(text).expect_err("no number").to_string();
    let shown = |value: &str| format!("memory.current: value is not a number: {value}");
    assert_eq!(error(b"1\xff2\n"), shown("\"1\u{fffd}2\""));
    assert_eq!(error(b"\x1b[1m\0"), shown(r#""\u{1b}[1m\0""#));
    assert_eq!(error(b"12\r\n"), shown(r#""12\r""#));
    // Thirty-two characters are shown, whether they take one byte or four.
    assert_eq!(error(&[b'x'; 32]), shown(&format!("\"{}\"", "x".repeat(32))));
    assert_eq!(error(&[b'x'; 33]), shown(&format!("\"{}...\"", "x".repeat(32))));
    let long = "\u{1f980}".repeat(1000);
    assert_eq!(error(long.as_bytes()), shown(&format!("\"{}...\"", "\u{1f980}".repeat(32))));
}

#[test]
fn no_bytes_make_a_parser_panic() {
    let seeds: Vec<Vec<u8>> = FIXTURES
        .iter()
        .flat_map(|fixture| fixture::read(fixture))
        .flat_map(|case| match case.kind.as_str() {
            "quantity" => case.input.lines().map(|line| line.as_bytes().to_vec()).collect(),
            _ => vec![case.input.into_bytes()],
        })
        .collect();
    let mut rng = Rng::from_seed(0x5eed);
    let mut accepted = [0_u32; PARSERS.len()];
    let mut refused = [0_u32; PARSERS.len()];
    for _ in 0..200_000 {
        let text = mutated(&seeds, &mut rng);
        for (index, parser) in PARSERS.iter().enumerate() {
            match (parser.run)(&text) {
                Ok(_) => accepted[index] += 1,
                Err(error) => {
                    refused[index] += 1;
                    // The longest value is 32 characters, each escaped as ten.
                    let shown = error.to_string();
                    assert!(shown.len() < 500, "{shown}");
                }
            }
        }
    }
    // The inputs are worth something only where they reach both ends of every parser.
    for (index, parser) in PARSERS.iter().enumerate() {
        assert!(accepted[index] > 100, "{}: {} accepted", parser.name, accepted[index]);
        assert!(refused[index] > 100, "{}: {} refused", parser.name, refused[index]);
    }
}

/// One of the seeds after a few edits, or once in a while nothing but noise.
fn mutated(seeds: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    const TOKENS: [&[u8]; 14] = [
        b"\n",
        b" ",
        b"=",
        b".",
        b"-",
        b"+",
        b"max",
        b"-1",
        b"e999",
        b"Ei",
        b"\xff",
        b"\0",
        b"0",
        b"99999999999999999999",
    ];
    if rng.below(20) == 0 {
        return (0..index_below(rng, 80)).map(|_| random_byte(rng)).collect();
    }
    let mut text = seeds[index_below(rng, seeds.len())].clone();
    for _ in 0..rng.below(5) {
        let at = index_below(rng, text.len() + 1);
        let end = at + index_below(rng, text.len() - at + 1);
        match rng.below(6) {
            0 => text.insert(at, random_byte(rng)),
            1 if at < text.len() => text[at] = random_byte(rng),
            2 => drop(text.drain(at..end)),
            3 => text.extend_from_within(at..end),
            4 => drop(text.splice(at..at, TOKENS[index_below(rng, TOKENS.len())].iter().copied())),
            _ => {
                let other = &seeds[index_below(rng, seeds.len())];
                text.splice(at..end, other.iter().copied()).for_each(drop);
            }
        }
    }
    text
}

fn index_below(rng: &mut Rng, bound: usize) -> usize {
    let bound = u64::try_from(bound).expect("a length fits into 64 bits");
    usize::try_from(rng.below(bound)).expect("an index below a length")
}

fn random_byte(rng: &mut Rng) -> u8 {
    u8::try_from(rng.below(256)).expect("a number below 256")
}

#[test]
fn a_quantity_is_what_long_multiplication_says() {
    const SUFFIXES: [(&str, i64, u32); 16] = [
        ("n", -9, 0),
        ("u", -6, 0),
        ("m", -3, 0),
        ("", 0, 0),
        ("k", 3, 0),
        ("M", 6, 0),
        ("G", 9, 0),
        ("T", 12, 0),
        ("P", 15, 0),
        ("E", 18, 0),
        ("Ki", 0, 10),
        ("Mi", 0, 20),
        ("Gi", 0, 30),
        ("Ti", 0, 40),
        ("Pi", 0, 50),
        ("Ei", 0, 60),
    ];
    let mut rng = Rng::from_seed(11);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..100_000 {
        let whole = random_digits(&mut rng);
        let fraction = random_digits(&mut rng);
        if whole.is_empty() && fraction.is_empty() {
            continue;
        }
        let exponent = i64::try_from(rng.below(61)).expect("a small number") - 30;
        let (suffix, decimal, doublings) = SUFFIXES[index_below(&mut rng, SUFFIXES.len())];
        let sign = ["", "+"][index_below(&mut rng, 2)];
        let power = if rng.below(2) == 0 { format!("e{exponent}") } else { String::new() };
        let exponent = if power.is_empty() { 0 } else { exponent };
        let text = format!("{sign}{whole}.{fraction}{power}{suffix}");
        let expected = slow_nanos_ceil(&(whole, fraction), exponent + decimal + 9, doublings);
        match parse::quantity(text.as_bytes()) {
            Ok(quantity) => {
                assert_eq!(quantity.nanos().to_string(), expected, "{text}");
                assert!(quantity <= Quantity::MAX, "{text}");
                accepted += 1;
            }
            Err(_) => {
                let largest = Quantity::MAX.nanos().to_string();
                let is_larger = (expected.len(), &expected) > (largest.len(), &largest);
                assert!(is_larger, "{text} was refused although it is {expected}n");
                refused += 1;
            }
        }
    }
    assert!(accepted > 10_000 && refused > 10_000, "{accepted} accepted, {refused} refused");
}

/// A few digits or many, zeros and nines more often than others.
fn random_digits(rng: &mut Rng) -> String {
    let most = [4, 12, 24][index_below(rng, 3)];
    (0..index_below(rng, most + 1))
        .map(|_| char::from(b"0000123456789999"[index_below(rng, 16)]))
        .collect()
}

/// `whole.fraction * 10^exponent * 2^doublings` in decimal, rounded up, by the school method.
fn slow_nanos_ceil(number: &(String, String), exponent: i64, doublings: u32) -> String {
    let (whole, fraction) = number;
    // Enough zeros on both sides that the point moves within the digits.
    let zeros = "0".repeat(200);
    let text = format!("{zeros}{whole}{fraction}{zeros}");
    let mut digits: Vec<u8> = text.bytes().map(|digit| digit - b'0').collect();
    for _ in 0..doublings {
        double(&mut digits);
    }
    let moved = i64::try_from(zeros.len() + whole.len()).expect("a small number") + exponent;
    let (integer, rest) = digits.split_at(usize::try_from(moved).expect("a place in the text"));
    let mut integer = integer.to_vec();
    if rest.iter().any(|&digit| digit != 0) {
        add_one(&mut integer);
    }
    let text: String = integer.iter().map(|&digit| char::from(digit + b'0')).collect();
    let trimmed = text.trim_start_matches('0');
    if trimmed.is_empty() { "0".into() } else { trimmed.into() }
}

fn double(digits: &mut [u8]) {
    let mut carry = 0;
    for digit in digits.iter_mut().rev() {
        let doubled = *digit * 2 + carry;
        (*digit, carry) = (doubled % 10, doubled / 10);
    }
    assert_eq!(carry, 0, "there were not enough zeros in front");
}

fn add_one(digits: &mut [u8]) {
    for digit in digits.iter_mut().rev() {
        if *digit < 9 {
            *digit += 1;
            return;
        }
        *digit = 0;
    }
}

#[test]
fn written_cpu_reads_as_the_same_cpu() {
    let mut rng = Rng::from_seed(3);
    for _ in 0..100_000 {
        let magnitude = 10_u64.pow(u32::try_from(rng.below(13)).expect("a small number"));
        let zeros = 10_u64.pow(u32::try_from(rng.below(7)).expect("a small number"));
        let milli = rng.below(magnitude).saturating_mul(zeros).min(Millicores::LIMIT.get());
        let cpu = Millicores::new(milli);
        let text = parse::format_millicores(cpu);
        let read = parse::quantity(text.as_bytes()).expect("written text is a quantity");
        assert_eq!(read.millicores_exact(), Some(cpu), "{text}");
        assert_eq!(read.to_string(), text);
    }
}

#[test]
fn cpu_is_written_as_kubernetes_writes_it() {
    let cases = [
        (0, "0"),
        (1, "1m"),
        (999, "999m"),
        (1000, "1"),
        (1500, "1500m"),
        (2000, "2"),
        (100_000, "100"),
        (1_000_000, "1k"),
        (1_000_001, "1000001m"),
        (1_000_000_000, "1M"),
        (u64::MAX, "18446744073709551615m"),
    ];
    for (milli, text) in cases {
        assert_eq!(parse::format_millicores(Millicores::new(milli)), text);
    }
}
