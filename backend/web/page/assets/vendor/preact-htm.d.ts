// Types of preact-htm.js, which comes without: those of the packages that it was made of.
import type { VNode } from 'preact';
export { h, Component, createContext, render } from 'preact';
export {
  useState, useReducer, useEffect, useLayoutEffect, useRef, useImperativeHandle, useMemo, useCallback, useContext, useDebugValue,
} from 'preact/hooks';
export declare const html: (strings: TemplateStringsArray, ...values: unknown[]) => VNode;
