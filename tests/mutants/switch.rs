//! Many mutants in one build: a function of which there are mutants becomes a `match` with an arm for each, a copy of its
//! body with that one change, and a number in the environment says which arm is taken.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::list::Mutant;

/// Names the mutant that is on. A test that starts a process without this environment starts a healthy one, so what
/// survives here gets a build of its own.
pub(crate) const VARIABLE: &str = "MUTANT_THAT_IS_ON";

/// Names a folder, in which a function that is called leaves a file for each mutant of it.
pub(crate) const REACHED: &str = "MUTANTS_THAT_ARE_REACHED";

/// For the root of a crate.
pub(crate) fn switch() -> String {
    format!(
        r#"
#[doc(hidden)]
pub(crate) fn __mutant() -> usize {{
    static ON: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *ON.get_or_init(|| std::env::var("{VARIABLE}").ok().and_then(|on| on.parse().ok()).unwrap_or(usize::MAX))
}}

#[doc(hidden)]
pub(crate) fn __reached(mutants: &[usize]) {{
    let Some(folder) = std::env::var_os("{REACHED}") else {{ return }};
    for mutant in mutants {{
        let _ = std::fs::write(std::path::Path::new(&folder).join(mutant.to_string()), "");
    }}
}}
"#
    )
}

/// The text of a file with those of its mutants that lie in a function, each with the lines of its arm.
pub(crate) fn switched(text: &str, mutants: &[(usize, &Mutant)]) -> (String, BTreeMap<usize, Range<usize>>) {
    let (mut out, mut lines, mut copied) = (String::new(), BTreeMap::new(), 0);
    for body in bodies(text) {
        let arm = |(number, mutant): &(usize, &Mutant)| Some((*number, mutant.apply_within(text, body.clone()).ok()?));
        let arms: Vec<_> = mutants.iter().filter_map(arm).collect();
        if arms.is_empty() {
            continue;
        }
        let numbers: Vec<usize> = arms.iter().map(|(number, _)| *number).collect();
        out.push_str(&text[copied..body.start]);
        out.push_str(&format!(
            "\nstatic __ONCE: std::sync::Once = std::sync::Once::new();\n\
             __ONCE.call_once(|| crate::__reached(&{numbers:?}));\nmatch crate::__mutant() {{\n"
        ));
        for (number, arm) in arms {
            let first = out.lines().count() + 1;
            out.push_str(&format!("{number} => {{{arm}}}\n"));
            lines.insert(number, first..out.lines().count() + 1);
        }
        out.push_str(&format!("_ => {{{}}}\n}}\n", &text[body.clone()]));
        copied = body.end;
    }
    out.push_str(&text[copied..]);
    (out, lines)
}

/// What is between the braces of each function that may have arms. Of text as rustfmt writes it: the brace that opens a
/// body ends a line, and the one that closes it stands alone below the beginning of the function.
fn bodies(text: &str) -> Vec<Range<usize>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(line) = text[at..].lines().next() {
        let (start, indentation) = (at, line.len() - line.trim_start().len());
        at = (at + line.len() + 1).min(text.len());
        let is_one =
            line.trim_start().split(' ').find(|word| !["pub", "async"].contains(word) && !word.starts_with("pub("));
        if is_one != Some("fn") {
            continue;
        }
        // A function of a trait has none, and a name for a type that is not told fits one arm only.
        let Some(head) = text[start..].find(['{', ';']).filter(|end| !text[start..start + end].contains("-> impl "))
        else {
            continue;
        };
        let opens = start + head + 1;
        if text.as_bytes()[opens - 1] == b'{' && text[opens..].starts_with('\n') {
            let close = format!("\n{}}}\n", " ".repeat(indentation));
            let Some(length) = text[opens..].find(&close) else { continue };
            found.push(opens..opens + length + 1);
            at = opens + length + close.len();
        }
    }
    found
}

#[test]
fn each_function_has_its_mutants_in_arms_of_their_own() {
    let text = "\
impl X {
    pub(crate) async fn one(&self) -> u8 {
        if a {
            yes
        }
    }

    const fn two() -> u8 {
        never
    }
}
";
    let list =
        "[] a\nin x\n- if a\n+ if A\n[] b\nin x\n- yes\n+ no\n[] of a constant function\nin x\n-         never\n";
    let mutants = crate::list::parse(list).unwrap();
    let (broken, lines) = switched(text, &mutants.iter().enumerate().collect::<Vec<_>>());
    let arms = "__ONCE.call_once(|| crate::__reached(&[0, 1]));
        match crate::__mutant() { 0 => { if A { yes } } 1 => { if a { no } } _ => { if a { yes } } } } const fn";
    let squeezed = |text: &str| text.split_whitespace().collect::<String>();
    assert!(squeezed(&broken).contains(&squeezed(arms)), "{broken}");
    let of_b: Vec<&str> = broken.lines().skip(lines[&1].start - 1).take(lines[&1].len()).collect();
    assert_eq!((squeezed(&of_b.join("")), lines.len()), (squeezed("1 => { if a { no } }"), 2), "{broken}");
}
