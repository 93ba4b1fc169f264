//! Reads the pickle of a PyTorch file as data, and runs nothing.
//!
//! A pickle is a program. This is an interpreter that knows the few instructions that build
//! dictionaries, tuples and numbers, and four names: an ordered dictionary, two functions that make
//! a tensor, and kinds of storage. Every other name and instruction ends it with an error that says
//! which. Steps, depth and sizes are bounded.

use std::collections::BTreeMap;

use super::FileError;

/// More steps than a state_dict of our size needs by far.
const STEPS: usize = 5000;
const DEPTH: usize = 16;

/// What a pickle may hold.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Object {
    Nothing,
    Int(i64),
    Float,
    Text(String),
    Tuple(Vec<Object>),
    Dict(Vec<(Object, Object)>),
    Global(Global),
    Storage(Storage),
    Tensor(TensorRef),
}

/// The names that may occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Global {
    OrderedDict,
    RebuildTensor,
    RebuildParameter,
    FloatStorage,
    DoubleStorage,
}

/// Numbers in another member of the archive.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Storage {
    pub(super) key: String,
    pub(super) double: bool,
}

/// A tensor over a storage.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TensorRef {
    pub(super) storage: Storage,
    pub(super) offset: usize,
    pub(super) shape: Vec<usize>,
    pub(super) strides: Vec<usize>,
}

/// What is on the stack.
#[derive(Clone, Debug)]
enum Item {
    Mark,
    Object(Object),
}

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    stack: Vec<Item>,
    /// `None` for what is not simple enough to be used twice.
    memo: BTreeMap<usize, Option<Object>>,
}

/// What a pickle builds.
pub(super) fn read(bytes: &[u8]) -> Result<Object, FileError> {
    let mut machine = Machine { bytes, at: 0, stack: Vec::new(), memo: BTreeMap::new() };
    for _ in 0..STEPS {
        let at = machine.at;
        let code = machine.byte()?;
        if code == b'.' {
            return machine.pop();
        }
        machine.step(code, at)?;
    }
    Err(broken("it has more steps than any model needs"))
}

// === impl Machine ===

impl<'a> Machine<'a> {
    fn step(&mut self, code: u8, at: usize) -> Result<(), FileError> {
        match code {
            0x80 => self.skip(1),
            0x95 => self.skip(8),
            b'(' => {
                self.stack.push(Item::Mark);
                Ok(())
            }
            b'}' => self.push(Object::Dict(Vec::new())),
            b')' | b']' => self.push(Object::Tuple(Vec::new())),
            b'N' => self.push(Object::Nothing),
            0x88 => self.push(Object::Int(1)),
            0x89 => self.push(Object::Int(0)),
            b'K' | b'M' | b'J' | 0x8a => self.integer(code),
            b'G' => {
                self.skip(8)?;
                self.push(Object::Float)
            }
            b'X' | 0x8c => {
                let length = self.number(if code == b'X' { 4 } else { 1 })?;
                let text = std::str::from_utf8(self.take(length)?);
                let text = text.map_err(|_| broken("a text is not UTF-8"))?.to_owned();
                self.push(Object::Text(text))
            }
            b'q' | b'r' | 0x94 => self.remember(code),
            b'h' | b'j' => self.recall(code),
            0x85 => self.tuple(1),
            0x86 => self.tuple(2),
            0x87 => self.tuple(3),
            b't' => {
                let items = self.pop_to_mark()?;
                self.push(Object::Tuple(items))
            }
            b's' | b'u' => self.set_items(code),
            b'a' | b'e' => self.append(code),
            b'c' | 0x93 => self.global(code),
            b'Q' => self.storage(),
            b'R' => self.call(),
            // State of an ordered dictionary, such as its _metadata; nothing that we need.
            b'b' => self.pop().map(|_| ()),
            other => Err(broken(&format!("instruction {other:#04x} at byte {at} is not allowed"))),
        }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], FileError> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| broken("it is cut off"))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, FileError> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn skip(&mut self, count: usize) -> Result<(), FileError> {
        self.take(count).map(|_| ())
    }

    fn number(&mut self, width: usize) -> Result<usize, FileError> {
        let bytes = self.take(width)?;
        Ok(bytes.iter().rev().fold(0, |sum, byte| (sum << 8) | usize::from(*byte)))
    }

    fn integer(&mut self, code: u8) -> Result<(), FileError> {
        let width = match code {
            b'K' => 1,
            b'M' => 2,
            b'J' => 4,
            _ => self.number(1)?,
        };
        if width > 8 {
            return Err(broken("a number has more than 64 bits"));
        }
        let bytes = self.take(width)?;
        // Only the longer kinds have a sign.
        let negative = width > 2 || code == 0x8a;
        let fill =
            if negative && bytes.last().is_some_and(|byte| byte & 0x80 != 0) { 0xff } else { 0 };
        let mut whole = [fill; 8];
        whole[..width].copy_from_slice(bytes);
        self.push(Object::Int(i64::from_le_bytes(whole)))
    }

    fn push(&mut self, object: Object) -> Result<(), FileError> {
        if depth(&object) > DEPTH {
            return Err(broken("it is nested too deeply"));
        }
        self.stack.push(Item::Object(object));
        Ok(())
    }

    fn pop(&mut self) -> Result<Object, FileError> {
        match self.stack.pop() {
            Some(Item::Object(object)) => Ok(object),
            Some(Item::Mark) | None => Err(broken("something is missing on the stack")),
        }
    }

    fn pop_to_mark(&mut self) -> Result<Vec<Object>, FileError> {
        let mut items = Vec::new();
        loop {
            match self.stack.pop() {
                Some(Item::Object(object)) => items.push(object),
                Some(Item::Mark) => break,
                None => return Err(broken("a mark is missing on the stack")),
            }
        }
        items.reverse();
        Ok(items)
    }

    fn tuple(&mut self, count: usize) -> Result<(), FileError> {
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(self.pop()?);
        }
        items.reverse();
        self.push(Object::Tuple(items))
    }

    /// Only what has no parts and short tuples of such are remembered, so that nothing can multiply
    /// itself.
    fn remember(&mut self, code: u8) -> Result<(), FileError> {
        let key = match code {
            b'q' => self.number(1)?,
            b'r' => self.number(4)?,
            _ => self.memo.len(),
        };
        let object = match self.stack.last() {
            Some(Item::Object(object)) if is_simple(object) => Some(object.clone()),
            Some(Item::Object(_)) => None,
            Some(Item::Mark) | None => return Err(broken("there is nothing to remember")),
        };
        self.memo.insert(key, object);
        Ok(())
    }

    fn recall(&mut self, code: u8) -> Result<(), FileError> {
        let key = self.number(if code == b'h' { 1 } else { 4 })?;
        match self.memo.get(&key).cloned() {
            Some(Some(object)) => self.push(object),
            Some(None) => Err(broken("a compound object is used twice")),
            None => Err(broken("something is recalled that was never remembered")),
        }
    }

    fn set_items(&mut self, code: u8) -> Result<(), FileError> {
        let items = if code == b'u' {
            self.pop_to_mark()?
        } else {
            let value = self.pop()?;
            vec![self.pop()?, value]
        };
        let Object::Dict(mut entries) = self.pop()? else {
            return Err(broken("items are put into something that is no dictionary"));
        };
        let mut items = items.into_iter();
        while let (Some(key), Some(value)) = (items.next(), items.next()) {
            entries.push((key, value));
        }
        self.push(Object::Dict(entries))
    }

    fn append(&mut self, code: u8) -> Result<(), FileError> {
        let items = if code == b'e' { self.pop_to_mark()? } else { vec![self.pop()?] };
        let Object::Tuple(mut list) = self.pop()? else {
            return Err(broken("items are appended to something that is no list"));
        };
        list.extend(items);
        self.push(Object::Tuple(list))
    }

    fn global(&mut self, code: u8) -> Result<(), FileError> {
        let [module, name] = if code == b'c' {
            [self.line()?, self.line()?]
        } else {
            let name = self.pop()?;
            match (self.pop()?, name) {
                (Object::Text(module), Object::Text(name)) => [module, name],
                _ => return Err(broken("a name is no text")),
            }
        };
        let global = match (module.as_str(), name.as_str()) {
            ("collections", "OrderedDict") => Global::OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2") => Global::RebuildTensor,
            ("torch._utils", "_rebuild_parameter") => Global::RebuildParameter,
            ("torch", "FloatStorage") => Global::FloatStorage,
            ("torch", "DoubleStorage") => Global::DoubleStorage,
            _ => return Err(FileError::Forbidden { name: format!("{module}.{name}") }),
        };
        self.push(Object::Global(global))
    }

    fn line(&mut self) -> Result<String, FileError> {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().take(200).position(|byte| *byte == b'\n');
        let length = length.ok_or_else(|| broken("a name does not end"))?;
        let text =
            std::str::from_utf8(&rest[..length]).map_err(|_| broken("a name is not UTF-8"))?;
        let text = text.to_owned();
        self.at += length + 1;
        Ok(text)
    }

    /// `('storage', torch.FloatStorage, '0', 'cpu', 64)`
    fn storage(&mut self) -> Result<(), FileError> {
        let Object::Tuple(id) = self.pop()? else {
            return Err(broken("a storage is described by something that is no tuple"));
        };
        match id.as_slice() {
            [Object::Text(kind), Object::Global(of), Object::Text(key), ..]
                if kind == "storage" =>
            {
                let double = match of {
                    Global::FloatStorage => false,
                    Global::DoubleStorage => true,
                    Global::OrderedDict | Global::RebuildTensor | Global::RebuildParameter => {
                        return Err(broken("a storage of something that is no storage"));
                    }
                };
                self.push(Object::Storage(Storage { key: key.clone(), double }))
            }
            _ => Err(broken("a storage is not described rightly")),
        }
    }

    fn call(&mut self) -> Result<(), FileError> {
        let (arguments, function) = (self.pop()?, self.pop()?);
        let (Object::Tuple(arguments), Object::Global(function)) = (arguments, function) else {
            return Err(broken("something is called that is no function"));
        };
        let made = match (function, arguments.as_slice()) {
            (Global::OrderedDict, _) => Object::Dict(Vec::new()),
            (Global::RebuildParameter, [tensor @ Object::Tensor(_), ..]) => tensor.clone(),
            (
                Global::RebuildTensor,
                [
                    Object::Storage(storage),
                    Object::Int(offset),
                    Object::Tuple(shape),
                    Object::Tuple(strides),
                    ..,
                ],
            ) => Object::Tensor(TensorRef {
                storage: storage.clone(),
                offset: sizes(&[Object::Int(*offset)])?[0],
                shape: sizes(shape)?,
                strides: sizes(strides)?,
            }),
            _ => return Err(broken("a tensor is not made rightly")),
        };
        self.push(made)
    }
}

/// Whether it has no parts, or is a short tuple of what has none.
fn is_simple(object: &Object) -> bool {
    match object {
        Object::Tuple(items) => items.len() <= 8 && items.iter().all(|item| depth(item) == 0),
        Object::Dict(_) => false,
        Object::Nothing
        | Object::Int(_)
        | Object::Float
        | Object::Text(_)
        | Object::Global(_)
        | Object::Storage(_)
        | Object::Tensor(_) => true,
    }
}

fn sizes(objects: &[Object]) -> Result<Vec<usize>, FileError> {
    let size = |object: &Object| {
        let Object::Int(size) = object else { return None };
        usize::try_from(*size).ok()
    };
    let sizes: Option<Vec<usize>> = objects.iter().map(size).collect();
    sizes.ok_or_else(|| broken("a size is no number from 0 on"))
}

/// How deeply it is nested; 0 for what has no parts.
fn depth(object: &Object) -> usize {
    match object {
        Object::Tuple(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Object::Dict(items) => {
            1 + items.iter().map(|(key, value)| depth(key).max(depth(value))).max().unwrap_or(0)
        }
        Object::Nothing
        | Object::Int(_)
        | Object::Float
        | Object::Text(_)
        | Object::Global(_)
        | Object::Storage(_)
        | Object::Tensor(_) => 0,
    }
}

fn broken(what: &str) -> FileError {
    FileError::Broken { format: "PyTorch", what: format!("its pickle: {what}") }
}
