import type { App } from "../route-context.ts"

/** Which methods a path has, for the header Allow of a 405 (RFC 9110). */
export class Methods {
  readonly #routes: { readonly pattern: RegExp; readonly methods: readonly string[] }[] = []

  /** Must be called before the first route is added. */
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
