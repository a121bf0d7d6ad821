/**
 * Settings: a name, a variable for those that operators set often, a default, and the values that are valid. One reader for
 * every room (S10). A value given in code takes precedence, then the command line and the configuration file
 * (`cli/input/settings.ts`), then the default.
 */
import { UmbraError } from "./errors.ts"

export interface Setting<T> {
  /** In the configuration file and with `--set`. */
  readonly name: string
  /** null: it is not read from the environment. */
  readonly variable: string | null
  /** The name in version 0.1. Variables with either name are refused. */
  readonly former?: string
  readonly default: T
  /** Parses a variable's text, which is not empty. */
  read(text: string): T
  /** Describes what a value must be, if this one is wrong. */
  wrong(value: T): string | undefined
}

export type SettingTable<S> = { readonly [K in keyof S]-?: Setting<S[K]> }

/** The settings that a table describes. */
export type SettingsOf<T> = { readonly [K in keyof T]: T[K] extends Setting<infer V> ? V : never }

export type Environment = Readonly<Record<string, string | undefined>>

export function readSettings<S extends object>(
  table: SettingTable<S>,
  overrides: Partial<S> = {},
  environment: Environment = process.env,
): S {
  const unknown = Object.keys(overrides).find(name => !Object.hasOwn(table, name))
  if (unknown !== undefined)
    throw new UmbraError(
      "E620",
      `There is no setting "${unknown}" here. docs/reference/configuration.md lists them; in code their names are in camelCase.`,
    )
  const found: Partial<S> = {}
  for (const name of Object.keys(table) as (keyof S & string)[]) {
    const setting = table[name]
    const text = overrides[name] === undefined ? textIn(setting, environment) : undefined
    const standard = text === undefined ? setting.default : setting.read(text)
    const value = overrides[name] === undefined ? standard : overrides[name]
    const wrong = setting.wrong(value)
    if (wrong !== undefined) {
      // The text as it was written: Number would show a text that is not a number as NaN.
      const shown = text ?? value
      const label = setting.variable ?? setting.name
      throw new UmbraError("E620", `The setting ${name} (${label}) must be ${wrong}, not ${shown}.`)
    }
    found[name] = value
  }
  return Object.freeze(found) as S
}

/** Reads the settings of a table. Precedence: the given value, then the environment, then the default. */
export function settingsReader<S extends object>(table: SettingTable<S>) {
  return (given?: Partial<S>, environment?: Environment): S => readSettings(table, given, environment)
}

/**
 * Values of the command line and of the configuration file, for settings without a variable: JSON, from names to texts. In the
 * environment of the process, so that its threads read the same values.
 */
export const SETTINGS_VARIABLE = "UMBRA_SETTINGS"

/** undefined: the default applies. */
function textIn(setting: Setting<unknown>, environment: Environment): string | undefined {
  const { name, variable, former = name } = setting
  if (variable !== null) return environment[variable]?.trim() || undefined
  const refused = [name, former].map(each => `UMBRA_${each.toUpperCase()}`)
  const given = refused.find(each => environment[each] !== undefined)
  if (given !== undefined)
    throw new UmbraError(
      "E620",
      `${given} is not read from the environment. Set ${name} in the configuration file (--config FILE), or with --set ${name}=VALUE.`,
    )
  const values = environment[SETTINGS_VARIABLE]
  const text = values === undefined ? undefined : (JSON.parse(values) as Record<string, string>)[name]?.trim()
  return text || undefined
}

/** `UMBRA_CONCURRENCY`: a variable sets it, too; `poll_seconds`: only the file, the command line and code do. */
export function settingNames(key: string): Pick<Setting<unknown>, "name" | "variable"> {
  return key.startsWith("UMBRA_")
    ? { name: key.slice("UMBRA_".length).toLowerCase(), variable: key }
    : { name: key, variable: null }
}

export function text(key: string, standard: string): Setting<string> {
  return {
    ...settingNames(key),
    default: standard,
    read: given => given,
    wrong: value => (value === "" ? "a text" : undefined),
  }
}

/** On, off, or the items of a list: `1`, `no`, `a,b`. */
export function switchOrList(key: string): Setting<boolean | readonly string[]> {
  return {
    ...settingNames(key),
    default: false,
    read: given => {
      if (/^(1|true|yes|on)$/i.test(given)) return true
      if (/^(0|false|no|off)$/i.test(given)) return false
      return given.split(",").map(item => item.trim())
    },
    wrong: () => undefined,
  }
}

export function wholeNumber(key: string, standard: number): Setting<number> {
  return {
    ...settingNames(key),
    default: standard,
    read: Number,
    wrong: value => (Number.isInteger(value) && value >= 1 ? undefined : "a whole number of at least 1"),
  }
}

export function amount(key: string, standard: number): Setting<number> {
  return {
    ...settingNames(key),
    default: standard,
    read: Number,
    wrong: value => (Number.isFinite(value) && value >= 0 ? undefined : "a number of at least 0"),
  }
}

/** A number above 0, or null, which a variable writes as `never`. */
export function amountOrNever(key: string, standard: number | null): Setting<number | null> {
  return {
    ...settingNames(key),
    default: standard,
    read: text => (text.toLowerCase() === "never" ? null : Number(text)),
    wrong: value =>
      value === null || (Number.isFinite(value) && value > 0) ? undefined : 'a number above 0, or "never"',
  }
}
