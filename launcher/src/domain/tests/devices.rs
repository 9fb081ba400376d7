//! Each device alone, in all its forms.
