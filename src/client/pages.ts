/** Reads a list page by page. `ask` gets `next` of the page before. */
export async function* pages<Cursor, Page extends { readonly next: Cursor | null }>(
  ask: (after?: Cursor) => Promise<Page>,
  first?: Cursor,
): AsyncGenerator<Page, void, undefined> {
  for (let after = first; ; ) {
    const page = await ask(after)
    yield page
    if (page.next == null) return
    after = page.next
  }
}
