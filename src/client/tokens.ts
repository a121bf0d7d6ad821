import type { Http } from "./http.ts"
import type { NewToken, Signalled, Token, WantedToken } from "./types.ts"

/** API tokens of the server; needs the scope admin. */
export class Tokens {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  /** Not sent twice: that might make two. */
  create(wanted: WantedToken): Promise<NewToken> {
    return this.#http.ask("/tokens", { method: "POST", body: wanted })
  }

  /** Oldest first, revoked ones too. */
  async list(options: Signalled & { readonly owner?: string } = {}): Promise<readonly Token[]> {
    const { owner, signal } = options
    return (await this.#http.ask<{ tokens: Token[] }>("/tokens", { query: { owner }, signal })).tokens
  }

  async revoke(id: string): Promise<void> {
    await this.#http.ask(`/tokens/${encodeURIComponent(id)}`, { method: "DELETE" })
  }
}
