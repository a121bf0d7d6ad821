/**
 * The types of the builder; nothing here exists at run time.
 *
 * A `Ref<T>` represents a value of type T that is known only when the job runs. Reading a field of it gives a ref to
 * that field, so every operation is a function (`orElse`, `cast`, …) and never a method: no field name of user data can
 * collide with a method name.
 */
import type { StandardSchemaV1 } from "@standard-schema/spec"
import type { Json } from "../../core/json.ts"
import type { HandlerSpec } from "../handler.ts"

declare const refersTo: unique symbol

/** The part of a ref that carries its type. Covariant: a ref to a string is also a ref to `string | undefined`. */
export interface RefOf<T> {
  readonly [refersTo]: T
}

/** A value known only when the job runs. A value that may be missing (`T | undefined`) has no fields before `orElse`. */
export type Ref<T> = RefOf<T> & Fields<T>

type IsAny<T> = 0 extends 1 & T ? true : false

/** A part that a schema declares as `any` stays `any`, at any depth. */
// biome-ignore lint/suspicious/noExplicitAny: it is the author's any, passed on
type Unchecked = any

/** `unknown` is some JSON: it can be passed on as a whole, and `cast` states its type. */
export type Known<T> = IsAny<T> extends true ? Unchecked : unknown extends T ? Json : T

/** Names that JavaScript itself reads from values; use `expr` for data under such a name. */
type Unreachable = "then" | "toJSON" | symbol

type FieldOf<T, K extends keyof T> = Known<T[K]> | (object extends Pick<T, K> ? undefined : never)

/**
 * Items of a list. An index past the end fails the node with E201 when the job runs, as in plain TypeScript without
 * `noUncheckedIndexedAccess`; with that flag, the named items need no `!`.
 */
type Items<E> = { readonly [I in -1 | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9]: Ref<Known<E>> } & {
  readonly [index: number]: Ref<Known<E>>
}

/** Keys of a mapping with any names: each may be missing. */
type Entries<T> = { readonly [key: string]: Ref<Known<T[keyof T]> | undefined> }

type Members<T> = { readonly [K in Exclude<keyof T, Unreachable>]: Ref<FieldOf<T, K>> }

type TupleMembers<T extends readonly unknown[]> = {
  readonly [K in Extract<keyof T, `${number}`>]: Ref<Known<T[K]>>
}

// Wrapped in tuples so that a union is taken as a whole: only fields that all its members share can be read.
type Fields<T> =
  IsAny<T> extends true
    ? Unchecked
    : [T] extends [readonly (infer E)[]]
      ? number extends T["length"]
        ? Items<E>
        : TupleMembers<T>
      : [T] extends [object]
        ? string extends keyof T
          ? Entries<T>
          : Members<T>
        : unknown

type Scalar = string | number | boolean | null

/** Any JSON with refs at any depth; none of them may be missing. */
export type TemplatedJson =
  | Scalar
  // biome-ignore lint/complexity/noBannedTypes: `{} | null` is exactly "anything but undefined"
  | RefOf<{} | null>
  | readonly TemplatedJson[]
  | { readonly [key: string]: TemplatedJson | undefined }

/** A T in which any part may be a ref instead of a literal. */
export type Templated<T> =
  IsAny<T> extends true
    ? TemplatedJson
    : // `[]`: otherwise the type would distribute over each kind of JSON, without end.
      [Json] extends [T]
      ? TemplatedJson
      : RefOf<Exclude<T, undefined>> | TemplatedParts<Exclude<T, undefined>>

type TemplatedParts<T> = T extends Scalar
  ? T
  : T extends readonly unknown[]
    ? { readonly [K in keyof T]: Templated<T[K]> }
    : T extends object
      ? { readonly [K in keyof T]: Templated<T[K]> | (object extends Pick<T, K> ? undefined : never) }
      : never

/** The type of a templated value when the job runs. */
export type Resolved<V> =
  IsAny<V> extends true
    ? Unchecked
    : V extends RefOf<infer T>
      ? T
      : V extends Json
        ? V
        : { readonly [K in keyof V]: Resolved<V[K]> }

/** The type of a ref's value, if it has one. */
export type Present<R> =
  IsAny<R> extends true ? Unchecked : R extends RefOf<infer T> ? Exclude<T, undefined> : never

/** The output of a node with `when`: if skipped, it is `{"skipped": true}` and every other field is missing (J12). */
export type Skippable<T> =
  IsAny<T> extends true
    ? Unchecked
    : [T] extends [readonly unknown[]]
      ? T | { readonly skipped: true }
      : [T] extends [object]
        ? Partial<T> & { readonly skipped?: true }
        : T | { readonly skipped: true }

type SchemaInput<S> = S extends StandardSchemaV1 ? StandardSchemaV1.InferInput<S> : unknown
type SchemaOutput<S> = S extends StandardSchemaV1 ? StandardSchemaV1.InferOutput<S> : unknown

/** A `HandlerSpec<Config, Output>` without the types of its schemas has only the type of the parsed config. */
type InputOrOutput<S> = unknown extends SchemaInput<S> ? SchemaOutput<S> : SchemaInput<S>

/** The config of a handler or adapter, before defaults are filled in. */
export type ConfigOf<H extends Pick<HandlerSpec, "config">> = InputOrOutput<NonNullable<H["config"]>>

/** Config may be left out if nothing in it is required. */
export type IsOptional<Config> = undefined extends Config
  ? true
  : Record<never, never> extends Config
    ? true
    : false

/** The output of a node with this handler. */
export type OutputOf<H extends HandlerSpec> = Known<SchemaOutput<NonNullable<H["output"]>>>
