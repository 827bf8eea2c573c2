(* rs.lem3.3: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Lemma 3.3.
   "Apply RS with sparsification rate r, choose p~ such that P(|xi| < 3C/4) >= sqrt(1 - r), then there is kappa in (1 - r, 1) such that
   E_m [P(|m xi| < 3C/4) h(w') |w'|] = kappa P(|xi| < 3C/4) h(w) |w|" (eq. 11), w' = m (.) w, h(v) = min(|v|, C/4), p~ symmetric. *)
From kernel Require Import definitions lemmas.

Definition h (C : R) (v : vec) : R := Rmin (norm v) (C / 4).
(* what the lemma assumes: k of d entries are kept, w is the gradient, p the law p~ of the deviation.
   w is not 0 and some entry is dropped: at w = 0 every kappa will do, at r = 0 the paper puts kappa = 1. *)
Definition assumed (d k : nat) (C : R) (w : vec) (p : law vec) : Prop :=
  (0 < k < d)%nat /\ 0 < C /\ length w = d /\ norm w <> 0 /\
  lawful p /\ in_space d p /\ symmetric p /\ sqrt (share d k) <= chance p (3 * C / 4) (fun v => v).
Definition with_mask d k C w p : R :=
  avg (masks d k) (fun m => chance p (3 * C / 4) (mask m) * h C (mask m w) * norm (mask m w)).
Definition without C w p : R := chance p (3 * C / 4) (fun v => v) * h C w * norm w.

Definition printed : Prop := forall d k C w p, assumed d k C w p ->
  exists kappa, share d k < kappa < 1 /\ with_mask d k C w p = kappa * without C w p.

(* the range is closed *)
Definition correction : Prop := forall d k C w p, assumed d k C w p ->
  exists kappa, share d k <= kappa <= 1 /\ with_mask d k C w p = kappa * without C w p.
