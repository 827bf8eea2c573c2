(* rf.lem2: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: Appendix B, Lemma 2 (eq. 35); RS, Lemma B.1.
   "u in R^d is an arbitrary vector, m is a {0,1}^d random mask independent from u and subject to sum m = (1 - r)d: E |m (.) u| >= (1 - r)|u|."
   Read, as RF draws its masks (section 2.1), with a uniform mask. *)
From kernel Require Import definitions lemmas.

Definition printed : Prop := forall d k u, (0 < k <= d)%nat -> length u = d ->
  share d k * norm u <= avg (masks d k) (fun m => norm (mask m u)).
(* with an upper bound *)
Definition correction : Prop := forall d k u, (0 < k <= d)%nat -> length u = d ->
  share d k * norm u <= avg (masks d k) (fun m => norm (mask m u)) <= sqrt (share d k) * norm u.
