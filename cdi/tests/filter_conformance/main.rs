//! Every decoder against files made by the tools people use: whole, cut short, damaged, entered in the middle, and
//! under a memory bound.

mod bounds;
mod broken;
mod kit;
mod resume;
mod stacked;
mod tar;
mod whole;
