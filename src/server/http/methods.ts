import type { App } from "../route-context.ts"

/** Which methods there are at a path: who takes the wrong one is told the right ones (RFC 9110, 405 with Allow). */
export class Methods {
  readonly #routes: { readonly pattern: RegExp; readonly methods: readonly string[] }[] = []

  /** Before the first route is there. */
  constructor(app: App) {
    app.addHook("onRoute", ({ url, method }) => {
      const pattern = new RegExp(`^${url.replaceAll(/[.*]/g, "\\$&").replaceAll(/:[^/]+/g, "[^/]+")}$`)
      this.#routes.push({ pattern, methods: [method].flat() })
    })
  }

  at(path: string): string[] {
    const found = this.#routes.filter(({ pattern }) => pattern.test(path)).flatMap(({ methods }) => methods)
    return [...new Set(found)].sort()
  }
}
