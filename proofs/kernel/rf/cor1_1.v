(* rf.cor1.1: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: Appendix B, Corollary 1.1 (eq. 32); RS, Corollary A.2.
   Following the notation of Lemma 1, E<m (.) u, m (.) v> = (1 - r) E<u, v>. *)
From kernel Require Import definitions lemmas.

From kernel Require Import rf.lem1.
Definition printed : Prop := forall d k q u v, (0 < k <= d)%nat -> mask_law d k q -> length u = d -> length v = d ->
  E q (fun m => dot (mask m u) (mask m v)) = share d k * dot u v.
Definition correction : Prop := forall d k (p : law (vec * vec)), (0 < k <= d)%nat -> lawful p ->
  Forall (fun a => length (fst (snd a)) = d /\ length (snd (snd a)) = d) p ->
  avg (masks d k) (fun m => E p (fun uv => dot (mask m (fst uv)) (mask m (snd uv))))
  = share d k * E p (fun uv => dot (fst uv) (snd uv)).

Theorem printed_is_false : ~ printed.
Proof.
  intro claim. specialize (claim 2%nat 1%nat always [1; 0] [1; 0] ltac:(lia) satisfiable eq_refl eq_refl).
  unfold E, always, share, dot in claim. simpl in claim. lra.
Qed.
Theorem correction_holds : correction.
Proof.
  intros d k p kd lp F. rewrite <- (rf.lem1.correction_holds d k p kd lp F). apply avg_ext, Forall_forall. intros m _.
  apply E_ext. intro uv. apply dot_mask.
Qed.
