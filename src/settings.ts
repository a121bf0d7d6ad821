/**
 * Settings: a name, an environment variable, a default, and a check. One reader for every component that has settings
 * (S10). A value given in code takes precedence, then the environment, then the default.
 */
import { UmbraError } from "./errors.ts"

export interface Setting<T> {
  readonly variable: string
  readonly default: T
  /** Parses a variable's text, which is not empty. */
  read(text: string): T
  /** Describes what a value must be, if this one is wrong. */
  wrong(value: T): string | undefined
}

export type SettingTable<S> = { readonly [K in keyof S]-?: Setting<S[K]> }

export type Environment = Readonly<Record<string, string | undefined>>

export function readSettings<S extends object>(
  table: SettingTable<S>,
  overrides: Partial<S> = {},
  environment: Environment = process.env,
): S {
  const found: Partial<S> = {}
  for (const name of Object.keys(table) as (keyof S & string)[]) {
    const setting = table[name]
    const value = overrides[name] === undefined ? fromEnvironment(setting, environment) : overrides[name]
    const wrong = setting.wrong(value)
    if (wrong !== undefined) {
      // The text as written: a text that is not a number would be shown as NaN.
      const shown = overrides[name] === undefined ? environment[setting.variable]?.trim() : value
      throw new UmbraError(
        "E620",
        `The setting ${name} (${setting.variable}) must be ${wrong}, not ${shown}.`,
      )
    }
    found[name] = value
  }
  return Object.freeze(found) as S
}

function fromEnvironment<T>(setting: Setting<T>, environment: Environment): T {
  const text = environment[setting.variable]?.trim()
  return text === undefined || text === "" ? setting.default : setting.read(text)
}

export function text(variable: string, standard: string): Setting<string> {
  return {
    variable,
    default: standard,
    read: given => given,
    wrong: value => (value === "" ? "a text" : undefined),
  }
}

export function wholeNumber(variable: string, standard: number): Setting<number> {
  return {
    variable,
    default: standard,
    read: Number,
    wrong: value => (Number.isInteger(value) && value >= 1 ? undefined : "a whole number of at least 1"),
  }
}

export function amount(variable: string, standard: number): Setting<number> {
  return {
    variable,
    default: standard,
    read: Number,
    wrong: value => (Number.isFinite(value) && value >= 0 ? undefined : "a number of at least 0"),
  }
}

/** A number above 0, or null, which a variable writes as `never`. */
export function amountOrNever(variable: string, standard: number | null): Setting<number | null> {
  return {
    variable,
    default: standard,
    read: text => (text.toLowerCase() === "never" ? null : Number(text)),
    wrong: value =>
      value === null || (Number.isFinite(value) && value > 0) ? undefined : 'a number above 0, or "never"',
  }
}
