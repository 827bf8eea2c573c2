(* rf.lem1: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: Appendix B, Lemma 1 (eq. 28); RS, Lemma A.1.
   "u, v in R^d are two arbitrary vectors, m is a {0,1}^d random mask independent from u, v, and subject to sum m = (1 - r)d. E<m^k (.) u, v> = (1 - r) E<u, v>." *)
From kernel Require Import definitions lemmas.

(* fixed vectors, of which every mask is independent; q is the mask's law, (1 - r)d = k; m^k = m *)
Definition mask_law (d k : nat) (q : law (list bool)) : Prop :=
  lawful q /\ Forall (fun a => length (snd a) = d /\ ones (snd a) = k) q.
Definition printed : Prop := forall d k q u v, (0 < k <= d)%nat -> mask_law d k q -> length u = d -> length v = d ->
  E q (fun m => dot (mask m u) v) = share d k * dot u v.
(* the mask is uniform; of the pair (u, v), any finite law that the mask is independent of *)
Definition correction : Prop := forall d k (p : law (vec * vec)), (0 < k <= d)%nat -> lawful p ->
  Forall (fun a => length (fst (snd a)) = d /\ length (snd (snd a)) = d) p ->
  avg (masks d k) (fun m => E p (fun uv => dot (mask m (fst uv)) (snd uv))) = share d k * E p (fun uv => dot (fst uv) (snd uv)).
