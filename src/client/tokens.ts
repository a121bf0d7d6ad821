import type { Http } from "./http.ts"
import { pages } from "./pages.ts"
import type { NewToken, Signalled, Token, WantedToken } from "./types.ts"

interface TokenPage {
  readonly tokens: readonly Token[]
  readonly next: string | null
}

const MOST_AT_ONCE = 1000

/** API tokens of the server; needs the scope admin. */
export class Tokens {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  /** Never sent twice: that might create two tokens. */
  create(wanted: WantedToken): Promise<NewToken> {
    return this.#http.ask("/tokens", { method: "POST", body: wanted })
  }

  /** Oldest first, including revoked tokens. */
  async list(options: Signalled & { readonly owner?: string | undefined } = {}): Promise<readonly Token[]> {
    const { owner, signal } = options
    const all: Token[] = []
    const ask = (after?: string) =>
      this.#http.ask<TokenPage>("/tokens", { query: { owner, after, limit: MOST_AT_ONCE }, signal })
    for await (const { tokens } of pages(ask)) all.push(...tokens)
    return all
  }

  async revoke(id: string): Promise<void> {
    await this.#http.ask(`/tokens/${encodeURIComponent(id)}`, { method: "DELETE" })
  }
}
