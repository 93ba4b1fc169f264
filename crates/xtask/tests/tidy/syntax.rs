//! Reads Rust source for the checks that need more than lines: functions, test code, literals.
//!
//! Called by `size`, `naming` and `metrics`. Code under `#[cfg(test)]` is known for what it is,
//! and literals inside macros are found too.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Block, ImplItemFn, Item, ItemFn, ItemMod, LitStr, Macro, Meta, Signature};
use syn::{TraitItemFn, parse_file, parse_str};

/// What the checks want to know about one file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outline {
    /// Functions that are not test code.
    pub(crate) functions: Vec<Function>,
    /// How many lines are test code.
    pub(crate) test_lines: usize,
    /// The names of all modules, with their lines.
    pub(crate) modules: Vec<(String, usize)>,
    /// String literals that are not in test code, with their lines.
    pub(crate) literals: Vec<(String, usize)>,
}

/// One function, from the line of `fn` to that of its closing brace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) lines: usize,
}

/// The outline of `text`, or why it is not Rust.
pub(crate) fn outline(text: &str) -> Result<Outline, String> {
    let file = parse_file(text).map_err(|error| error.to_string())?;
    let mut outline = Outline::default();
    outline.visit_file(&file);
    Ok(outline)
}

/// Whether everything in the file at `path` is test code.
pub(crate) fn is_test_file(path: &str) -> bool {
    let mut parts = path.split('/');
    parts.any(|part| ["tests", "tests.rs", "benches"].contains(&part))
}

fn first_line(span: Span) -> usize {
    span.start().line
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) => {
            let tokens = list.tokens.to_string().replace(' ', "");
            list.path.is_ident("cfg") && (tokens == "test" || tokens.starts_with("all(test,"))
        }
        Meta::Path(path) => path.segments.last().is_some_and(|last| last.ident == "test"),
        Meta::NameValue(_) => false,
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the enum is not ours and may grow")]
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

// === impl Outline ===

impl Outline {
    fn function(&mut self, signature: &Signature, body: &Block) {
        let line = first_line(signature.fn_token.span);
        let end = body.brace_token.span.close().end().line;
        let name = signature.ident.to_string();
        self.functions.push(Function { name, line, lines: end + 1 - line });
    }

    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Literal(literal) => {
                    if let Ok(text) = parse_str::<LitStr>(&literal.to_string()) {
                        self.literals.push((text.value(), first_line(literal.span())));
                    }
                }
                TokenTree::Ident(_) | TokenTree::Punct(_) => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Outline {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_test(attributes(item)) {
            let span = item.span();
            self.test_lines += span.end().line + 1 - first_line(span);
        } else {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        self.modules.push((module.ident.to_string(), first_line(module.ident.span())));
        visit::visit_item_mod(self, module);
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.function(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        if !is_test(&function.attrs) {
            self.function(&function.sig, &function.block);
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if let Some(body) = &function.default {
            self.function(&function.sig, body);
        }
        visit::visit_trait_item_fn(self, function);
    }

    fn visit_lit_str(&mut self, literal: &'ast LitStr) {
        self.literals.push((literal.value(), first_line(literal.span())));
    }

    fn visit_macro(&mut self, invocation: &'ast Macro) {
        self.tokens(invocation.tokens.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"//! Header.
/// Documented.
fn one() {
    call("a", format!("{}", "b"));
}
mod inner {
    impl X {
        fn two(&self) {}
    }
}
#[cfg(test)]
mod tests {
    #[test]
    fn three() {
        assert_eq!("c", "d");
    }
}
"#;

    #[test]
    fn functions_and_literals_are_found_outside_tests_only() {
        let outline = outline(SOURCE).unwrap();
        let function = |name: &str, line, lines| Function { name: name.to_owned(), line, lines };
        assert_eq!(outline.functions, [function("one", 3, 3), function("two", 8, 1)]);
        let literals: Vec<_> = outline.literals.iter().map(|(text, _)| text.as_str()).collect();
        assert!(literals.contains(&"a") && literals.contains(&"b"), "{literals:?}");
        assert!(!literals.contains(&"c") && !literals.contains(&"d"), "{literals:?}");
    }

    #[test]
    fn test_code_is_counted_with_its_attribute() {
        assert_eq!(outline(SOURCE).unwrap().test_lines, 7);
        assert_eq!(outline("#[cfg(all(test, unix))]\nmod tests;\n").unwrap().test_lines, 2);
        assert_eq!(outline("#[cfg(not(test))]\nmod real;\n").unwrap().test_lines, 0);
    }

    #[test]
    fn modules_are_found_and_nonsense_is_refused() {
        assert_eq!(outline(SOURCE).unwrap().modules, [("inner".to_owned(), 6)]);
        assert!(outline("fn {").is_err());
    }

    #[test]
    fn test_files_are_known_by_their_path() {
        assert!(is_test_file("crates/core/tests/golden.rs"));
        assert!(is_test_file("crates/core/src/market/tests.rs"));
        assert!(!is_test_file("crates/core/src/market/contests.rs"));
    }
}
