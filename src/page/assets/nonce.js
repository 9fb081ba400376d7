// The policy of this page lets in no style that a script has made, unless it has the word of this page. The terminal makes
// some, and asks for no word; so every style element gets it here.

const word = document.querySelector("script[nonce]").nonce;
const make = document.createElement.bind(document);

document.createElement = (name, options) => {
  const made = make(name, options);
  if (made instanceof HTMLStyleElement) made.nonce = word;
  return made;
};
