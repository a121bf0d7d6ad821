import { UmbraError } from "../../errors.ts"

/** Rejects two different things with the same name: one of them would silently replace the other. */
export function useOnce<T>(
  known: Map<string, T>,
  used: { readonly name: string; readonly thing: T; readonly what: string; readonly owner: string },
): void {
  const { name, thing, what, owner } = used
  const first = known.get(name)
  if (first !== undefined && first !== thing)
    throw new UmbraError(
      "E103",
      `${owner} uses two different ${what}s called ${JSON.stringify(name)}. Rename one of them.`,
    )
  known.set(name, thing)
}
