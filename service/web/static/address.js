// What the pages read out of the address of a page.

// The text behind the #, decoded where it is encoded.
export function decoded(hash) {
  try {
    return decodeURIComponent(hash.slice(1));
  } catch {
    return hash.slice(1);
  }
}
