//! How far a program reaches, and who reaches it.
//!
//! | module | what it does |
//! |---|---|
//! | [`confine`] | a program, or one of its threads, gives up what it does not need before it reads foreign bytes |
//! | [`folder`] | a folder that nobody else can write to is made, or the path to it is refused |
//!
//! A leaf: it knows no disk, no image and no VM. Importers, the upload server and the launcher use it as `coracle` does.

pub mod confine;
pub mod folder;
